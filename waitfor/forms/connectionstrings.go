package forms

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"initbox/internal/words"
)

// ConnectionString returns the URL for a target that is a list of KEY=VALUE, the connection string of a library, and
// whether it is one. Settings may follow as in a URL: host=mydb user=app#query=SELECT%201. The errors do not quote the
// text.
func ConnectionString(text string, kinds Table) (string, bool, error) {
	var problem error
	for _, form := range []func(string, Table) (string, bool, error){pdo, libpq, adoNET, redisList} {
		u, ok, err := form(text, kinds)
		if ok && err == nil {
			return u, true, nil
		}
		if err != nil && (problem == nil || strings.Contains(text, ";")) { // libpq has no ;
			problem = err
		}
	}
	return "", problem != nil, problem
}

// cutPrefix cuts off the kind of server before a connection string, as in mysql:Server=mydb.
func cutPrefix(text string) (kind, rest string) {
	for _, prefix := range []string{"postgres", "postgresql", "pgsql", "mysql", "mariadb"} {
		if rest, ok := cutPrefixFold(text, prefix+":"); ok && !strings.HasPrefix(rest, "//") {
			return kindNamed(prefix), rest
		}
	}
	return "", text
}

// firstKey returns the text before the first =.
func firstKey(text string) string {
	_, text = cutPrefix(text)
	key, _, _ := strings.Cut(strings.TrimPrefix(text, "?"), "=")
	return strings.TrimSpace(key)
}

// isWord reports whether word is in a list whose words are each between two spaces.
func isWord(list, word string) bool {
	return word != "" && !strings.Contains(word, " ") && strings.Contains(list, " "+word+" ")
}

// cutSettings cuts off the settings: they follow the last # before the name of a setting of the kind. A password may
// contain a #, too; the value of a setting has %23 instead.
func cutSettings(text, kind string, kinds Table) (rest, settings string) {
	for i := strings.LastIndexByte(text, '#'); i >= 0; i = strings.LastIndexByte(text[:i], '#') {
		name, _, _ := strings.Cut(text[i+1:], "&")
		name, _, _ = strings.Cut(name, "=")
		if kinds.HasSetting(kind, name) {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// libpqKeys are the keys of libpq (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS).
const libpqKeys = " host hostaddr port dbname user password passfile require_auth channel_binding connect_timeout" +
	" client_encoding options application_name fallback_application_name keepalives keepalives_idle keepalives_interval" +
	" keepalives_count tcp_user_timeout replication gssencmode sslmode requiressl sslnegotiation sslcompression sslcert" +
	" sslkey sslkeylogfile sslpassword sslcertmode sslrootcert sslcrl sslcrldir sslsni requirepeer" +
	" ssl_min_protocol_version ssl_max_protocol_version min_protocol_version max_protocol_version krbsrvname gsslib" +
	" gssdelegation scram_client_key scram_server_key service servicefile target_session_attrs load_balance_hosts" +
	" oauth_issuer oauth_client_id oauth_client_secret oauth_scope "

// libpqAlone are the first keys that identify libpq even without a host: PGSERVICE may name it.
const libpqAlone = " port dbname user password sslmode "

// libpq reads a connection string of libpq, such as host=mydb user=app password='a b'.
func libpq(text string, kinds Table) (string, bool, error) {
	kind, rest := cutPrefix(text)
	key := firstKey(text)
	if kind != "" && kind != "postgres" && kind != "postgresql" || !isWord(libpqKeys, key) {
		return "", false, nil
	}
	rest, settings := cutSettings(strings.TrimPrefix(rest, "?"), "postgres", kinds)
	values, err := libpqValues(rest)
	if err != nil {
		return "", true, err
	}
	host := values["host"] + values["hostaddr"]
	switch {
	case strings.Contains(host, ";"): // host=mydb;port=5432 is not a form of libpq
		return "", false, nil
	case host+values["service"] == "" && (!isWord(libpqAlone, key) || strings.Contains(rest, ";")):
		return "", false, nil
	}
	return libpqURL(values) + settings, true, nil
}

// libpqValues returns the values of a connection string of libpq by their keys
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-KEYWORD-VALUE).
func libpqValues(text string) (map[string]string, error) {
	values := map[string]string{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !ok || strings.Trim(key, keyCharacters) != "" || key == "" {
			return nil, errors.New("a connection string is made of KEY=VALUE, separated by spaces; put a value that contains a space in single quotes")
		}
		value, after, ok := libpqValue(strings.TrimLeft(after, " \t\n"))
		if !ok {
			return nil, errors.New("a connection string has a quote that is not closed")
		}
		values[key], rest = value, after
	}
	return values, nil
}

const keyCharacters = "abcdefghijklmnopqrstuvwxyz_"

// libpqValue reads a value, quoted or up to a space. A backslash escapes a quote or a backslash.
func libpqValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && i == 0:
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case quoted && c == '\'':
			return b.String(), s[i+1:], true
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			return b.String(), s[i:], true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", !quoted
}

// libpqURL returns the URL for the values. Hosts that are sockets stand in its query, as in libpq's URLs.
func libpqURL(values map[string]string) string {
	u := url.URL{Scheme: "postgres"}
	query := url.Values{}
	hosts, ports := strings.Split(cmp.Or(values["host"], values["hostaddr"]), ","), strings.Split(values["port"], ",")
	if strings.Contains(values["host"], "/") || values["host"]+values["hostaddr"] == "" {
		for _, key := range []string{"host", "port"} {
			if values[key] != "" {
				query.Set(key, values[key])
			}
		}
	} else {
		for i, host := range hosts {
			hosts[i] = joined(host, ports[min(i, len(ports)-1)])
		}
		u.Host = strings.Join(hosts, ",")
	}
	if values["host"] != "" && values["hostaddr"] != "" {
		query.Set("hostaddr", values["hostaddr"])
	}
	for key, value := range values {
		if !IsOneOf(key, "host", "hostaddr", "port", "dbname", "user", "password") {
			query.Set(key, value)
		}
	}
	return urlOf(u, query, values["user"], values["password"], "dbname", values["dbname"])
}

// urlOf adds the login, the query and the database to a URL: a database that looks like a name to the path, which is
// shown, any other one to the query, as the parameter name.
func urlOf(u url.URL, query url.Values, user, password, name, database string) string {
	switch {
	case password != "":
		u.User = url.UserPassword(user, password)
	case user != "":
		u.User = url.User(user)
	}
	if u.Path = "/"; Harmless(database) {
		u.Path += database
	} else {
		query.Set(name, database)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// joined returns host:port for a URL; port may be empty.
func joined(host, port string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return host
}

// pdo reads a data source name of PHP's PDO, pgsql:host=mydb;dbname=app or
// mysql:unix_socket=/run/mysqld.sock;dbname=app. The driver of PostgreSQL replaces semicolons by spaces and passes the
// rest to libpq (https://www.php.net/manual/en/ref.pdo-pgsql.connection.php); that of MySQL has no quotes, and a
// doubled semicolon stands for one (https://www.php.net/manual/en/ref.pdo-mysql.connection.php).
func pdo(text string, kinds Table) (string, bool, error) {
	if rest, ok := cutPrefixFold(text, "pgsql:"); ok && !strings.HasPrefix(rest, "//") {
		rest, settings := cutSettings(rest, "postgres", kinds)
		values, err := libpqValues(strings.ReplaceAll(rest, ";", " "))
		if err != nil {
			return "", true, err
		}
		return libpqURL(values) + settings, true, nil
	}
	kind, rest := cutPrefix(text)
	if kind != "mysql" {
		return "", false, nil
	}
	rest, settings := cutSettings(rest, "mysql", kinds)
	values := map[string]string{}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, _ := strings.Cut(rest, "=")
		if !isWord(" host port dbname unix_socket charset user password ", key) {
			return "", false, nil
		}
		values[key], rest = pdoValue(after)
	}
	if len(values) == 0 {
		return "", false, nil
	}
	values["database"] = values["dbname"]
	u, err := mysqlURL(values)
	return u + settings, true, err
}

// pdoValue reads a value up to a single semicolon.
func pdoValue(s string) (value, rest string) {
	for {
		part, after, more := strings.Cut(s, ";")
		value += part
		if s = strings.TrimPrefix(after, ";"); !more || s == after {
			return value, s
		}
		value += ";"
	}
}

// redisKeys are the keys of StackExchange.Redis, in lower case
// (https://stackexchange.github.io/StackExchange.Redis/Configuration).
const redisKeys = " abortconnect allowadmin asynctimeout channelprefix checkcertificaterevocation configchannel" +
	" configcheckseconds connectretry connecttimeout defaultdatabase defaults heartbeatconsistencychecks heartbeatinterval" +
	" highintegrity includedetailinexceptions keepalive name password preservesasyncorder proxy resolvedns" +
	" responsetimeout sentinelpassword sentineluser servicename setlib ssl sslhost sslprotocols synctimeout tiebreaker" +
	" protocol tunnel user version writebuffer "

// redisList reads a configuration of StackExchange.Redis: redis-0:6379,redis-1:6379,password=pw,ssl=True. Hosts must
// come first here: after a password they might be the part of it after a comma.
func redisList(text string, kinds Table) (string, bool, error) {
	text, settings := cutSettings(text, "redis", kinds)
	var hosts []string
	values := map[string]string{}
	for element := range strings.SplitSeq(text, ",") {
		key, value, pair := strings.Cut(strings.TrimSpace(element), "=")
		key = strings.ToLower(strings.TrimSpace(key))
		host, port := splitPort(key)
		switch {
		case pair && (isWord(redisKeys, key) || strings.HasPrefix(key, "$")) && len(hosts) > 0:
			values[key] = strings.TrimSpace(value)
		case !pair && key == "":
		case !pair && isHostPort(host, port) && len(values) == 0:
			hosts = append(hosts, key)
		case !pair && len(values) > 0:
			return "", true, errors.New("a configuration of StackExchange.Redis must have its hosts before its options, and no comma in its password: write redis://:${env:NAME}@HOST, or percent-encode the password there")
		default:
			return "", false, nil
		}
	}
	if len(values) == 0 || len(hosts) == 0 {
		return "", false, nil
	}
	database, master := values["defaultdatabase"], values["servicename"]
	if strings.Trim(database, "0123456789") != "" || strings.Trim(master, words.NameCharacters) != "" {
		return "", true, errors.New("a configuration of StackExchange.Redis must have a number as its defaultDatabase, and the name of the master as its serviceName")
	}
	u := url.URL{Scheme: "redis"}
	if Yes(values["ssl"]) {
		u.Scheme = "rediss"
		if name := values["sslhost"]; Harmless(name) && name != "" && !strings.Contains(settings, "server-name=") {
			settings = strings.TrimSuffix("#server-name="+name+"&"+strings.TrimPrefix(settings, "#"), "&")
		}
	}
	if master != "" {
		u.Scheme += "+sentinel"
		database = strings.TrimSuffix(master+"/"+database, "/")
	}
	for i, host := range hosts {
		host, port := splitPort(host)
		if port == "" && u.Scheme == "rediss" {
			port = "6380" // its default with TLS
		}
		hosts[i] = joined(host, port)
	}
	u.Host, u.Path = strings.Join(hosts, ","), "/"+database
	switch user, password := values["user"], values["password"]; {
	case password != "":
		u.User = url.UserPassword(user, password)
	case user != "":
		u.User = url.User(user)
	}
	return u.String() + settings, true, nil
}

// splitPort returns host, without its brackets, and port of HOST, HOST:PORT or [::1]:PORT.
func splitPort(s string) (host, port string) {
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && (strings.Count(s, ":") == 1 || strings.HasSuffix(s[:i], "]")) {
		host, port = s[:i], s[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return host, port
}

// isHostPort reports whether host and port, which may be empty, look like a host and a port, and so may be shown.
func isHostPort(host, port string) bool {
	return host != "" && Harmless(host) && strings.Trim(port, "0123456789") == ""
}
