// Package forms turns targets in the forms of other programs into URLs: JDBC and SQLAlchemy URLs, lists of URLs and of
// brokers, connection strings of libpq, ADO.NET, PDO and StackExchange.Redis, data source names of Go's MySQL driver.
//
// A target goes through [Resolve], which replaces a target that is a reference as a whole, and then through [URL]. Text
// in no known form passes unchanged.
package forms

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/secret"
	"initbox/internal/words"
)

// Resolve replaces a target that is only a reference, with or without settings, by its value: ${env:DATABASE_URL},
// which charts keep in a Secret. A connection string may follow its kind: mysql:${env:ConnectionStrings__App}.
func Resolve(text string, getenv func(string) string) (string, error) {
	ref, settings, _ := strings.Cut(text, "#")
	_, bare := cutPrefix(ref)
	value, whole, err := secret.Resolve(bare, "a target", getenv)
	if !whole || err != nil {
		return text, err
	}
	scheme, _, isURL := strings.Cut(value, "://")
	isURL = isURL && strings.Trim(scheme, words.NameCharacters+"+:") == ""
	if kind, _ := cutPrefix(value); kind == "" && !isURL {
		value = strings.TrimSuffix(ref, bare) + value
	}
	if settings != "" {
		if isURL { // otherwise a # is an ordinary character
			url, own, _ := strings.Cut(value, "#")
			if strings.Contains(own, "@") {
				return "", errors.New("the value that the target refers to has an @ after a #: percent-encode special characters in a password (%40 for @, %23 for #)")
			}
			value = url
		}
		value += "#" + settings
	}
	return value, nil
}

// KubeletProblem returns an error for a target whose host or port is the URL in a variable that Kubernetes sets for a
// Service: REDIS_PORT=tcp://10.96.0.1:6379.
func KubeletProblem(text string) error {
	_, after, _ := strings.Cut(text, "://")
	begin, end := secret.Authority(after)
	if host := after[begin:end]; host == "tcp:" || strings.HasSuffix(host, ":tcp:") {
		return errors.New("a target has tcp:// where its host or port belongs: Kubernetes sets a variable such as REDIS_PORT to the URL of the Service redis; the port is in REDIS_SERVICE_PORT")
	}
	return nil
}

// A Table looks up kinds of targets by scheme.
type Table interface {
	Has(scheme string) bool
	HasHosts(scheme string) bool // URLs of the kind may name several hosts, joined by commas
	HasSetting(scheme, name string) bool
}

// URL returns the URL for a target in the form of another program. Its errors do not quote the text, which may contain
// a password.
func URL(text string, kinds Table) (string, error) {
	if u, ok := goDSN(text); ok {
		return u, nil
	}
	if u, ok := kafkaList(text); ok {
		return u, nil
	}
	if u, ok, err := ConnectionString(text, kinds); ok {
		return u, err
	}
	text = oneURL(text, kinds)
	rest, isJDBC := cutPrefixFold(text, "jdbc:")
	for _, reactive := range []string{"r2dbc:", "vertx-reactive:"} { // r2dbc:pool:postgresql://
		if after, ok := cutPrefixFold(text, reactive); ok {
			rest, isJDBC = after, true
		}
	}
	if isJDBC {
		// jdbc:mysql:replication://, jdbc:aws-wrapper:postgresql://, jdbc:postgresql:app
		if scheme, after, ok := strings.Cut(rest, "://"); ok {
			for part := range strings.SplitSeq(strings.ToLower(scheme), ":") {
				if kinds.HasHosts(part) {
					return encrypted(part+"://"+after, scheme), nil
				}
			}
		} else if scheme, database, ok := strings.Cut(rest, ":"); ok {
			name, _, _ := strings.Cut(database, "?")
			if kinds.HasHosts(strings.ToLower(scheme)) && Harmless(name) {
				return scheme + "://localhost/" + database, nil
			}
		}
		return "", errors.New("no such kind of JDBC URL: those of postgresql, mysql, mariadb and clickhouse are supported")
	}
	// SQLAlchemy's dialect+driver://
	if scheme, after, ok := strings.Cut(text, "://"); ok && !kinds.Has(strings.ToLower(scheme)) {
		dialect, driver, _ := strings.Cut(strings.ToLower(scheme), "+")
		dialect = kindNamed(dialect)
		if dialect == "redis+sentinel" {
			after = pathAsDatabase(after)
		}
		if kinds.HasHosts(dialect) {
			return encrypted(socketHost(dialect+"://"+after), driver), nil
		}
	}
	return socketHost(text), nil
}

// kindNamed returns our scheme for a name in the URLs of other programs: Rails, Django, Doctrine, golang-migrate,
// Celery.
func kindNamed(name string) string {
	switch name {
	case "mysql2", "mysqli", "trilogy", "pdo-mysql", "mysqlgis":
		return "mysql"
	case "pgsql", "pdo-pgsql", "psql", "postgis", "pgx", "pgx4", "pgx5", "cockroach", "cockroachdb", "timescaledb":
		return "postgres"
	case "pyamqp", "librabbitmq":
		return "amqp"
	case "rediscache":
		return "redis"
	case "sentinel": // its path is the database, not the master's name
		return "redis+sentinel"
	case "memcache", "pymemcache":
		return "memcached"
	case "zk":
		return "zookeeper"
	}
	return name
}

// encrypted adds the setting tls to a URL if the driver beside its kind requires TLS, as in elasticsearch+https:// and
// jdbc:clickhouse:https://.
func encrypted(text, driver string) string {
	last := driver[strings.LastIndexAny(driver, ":+")+1:]
	if !IsOneOf(last, "https", "tls", "ssl") {
		return text
	}
	return withTLS(text)
}

// withTLS adds the setting tls to a URL that does not have it.
func withTLS(text string) string {
	rest, settings, _ := strings.Cut(text, "#")
	if slices.Contains(strings.Split(settings, "&"), "tls") {
		return text
	}
	return strings.TrimSuffix(rest+"#tls&"+settings, "&")
}

// oneURL joins a list of URLs of one kind, as for NATS, nats://app:pw@a:4222,nats://app:pw@b:4222, or Celery,
// amqp://a//;amqp://b//, into one URL with several hosts. It keeps the login of the first URL, and the path, query and
// fragment of the last.
func oneURL(text string, kinds Table) string {
	scheme, _, ok := strings.Cut(text, "://")
	name := strings.ToLower(scheme)
	dialect, _, _ := strings.Cut(name, "+")
	if !kinds.Has(name) {
		name = kindNamed(dialect)
	}
	if !ok || !kinds.HasHosts(name) {
		return text
	}
	next := scheme + "://"
	text = strings.NewReplacer(", "+next, ","+next, "; "+next, ","+next, ";"+next, ","+next).Replace(text)
	parts := strings.Split(text[len(next):], ","+next)
	for i, part := range parts {
		begin, end := secret.Authority(part)
		if i == 0 {
			begin = 0
		}
		if i == len(parts)-1 || strings.Contains(part[end:], "@") { // it is refused later
			end = len(part)
		}
		parts[i] = part[begin:end]
	}
	return next + strings.Join(parts, ",")
}

// pathAsDatabase turns the path /0 into ?db=0, in the part of a URL after "://".
func pathAsDatabase(after string) string {
	_, end := secret.Authority(after)
	rest, settings, fragment := strings.Cut(after[end:], "#")
	path, query, _ := strings.Cut(rest, "?")
	if path = strings.Trim(path, "/"); path != "" {
		query = strings.TrimSuffix("db="+path+"&"+query, "&")
	}
	after = after[:end] + "/"
	if query != "" {
		after += "?" + query
	}
	if fragment {
		after += "#" + settings
	}
	return after
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// kafkaList returns the URL for a list of bootstrap servers with their security protocol, as in
// SASL_SSL://b1:9093,SASL_SSL://b2:9093 or, from Heroku, kafka+ssl://b1:9096,…; kafka:// may precede the list.
func kafkaList(text string) (string, bool) {
	rest, named := cutPrefixFold(text, "kafka://")
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	list, rest := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndexByte(list, '@') + 1; named {
		user, list = list[:at], list[at:]
	}
	for _, p := range kafkaPrefixes {
		if _, ok := cutPrefixFold(list, p.text); !ok || p.common && !named {
			continue
		}
		var servers []string
		for server := range strings.SplitSeq(list, ",") {
			server, _ = cutPrefixFold(server, p.text)
			servers = append(servers, server)
		}
		text = "kafka://" + user + strings.Join(servers, ",") + rest
		if p.tls {
			text = withTLS(text)
		}
		return text, true
	}
	return "", false
}

// kafkaPrefixes are the prefixes of bootstrap servers. A common one is also a scheme of other programs.
var kafkaPrefixes = []struct {
	text        string
	tls, common bool
}{
	{"PLAINTEXT://", false, false},
	{"SASL_PLAINTEXT://", false, false},
	{"SASL_SSL://", true, false},
	{"SSL://", true, true},
	{"kafka+ssl://", true, false},
}

// goDSN reads the data source name of Go's MySQL driver, user:password@tcp(host:port)/db?…, which is not a URL: user
// and password are not encoded, and end at the last @ before the address
// (https://github.com/go-sql-driver/mysql#dsn-data-source-name).
func goDSN(text string) (string, bool) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "mysql://"), "mysql:")
	for end := len(text); end > 0; {
		end = strings.LastIndex(text[:end], ")/")
		if end < 0 {
			return "", false
		}
		begin := strings.LastIndexByte(text[:end], '(')
		for _, network := range []string{"tcp", "tcp4", "tcp6", "unix"} {
			login, ok := strings.CutSuffix(text[:max(begin, 0)], network)
			if ok && (login == "" || strings.HasSuffix(login, "@")) && !strings.Contains(text[begin:end], "@") {
				return goDSNURL(network, strings.TrimSuffix(login, "@"), text[begin+1:end], text[end+2:]), true
			}
		}
	}
	return "", false
}

func goDSNURL(network, login, address, rest string) string {
	u := url.URL{Scheme: "mysql", Host: cmp.Or(address, "localhost")}
	if user, password, set := strings.Cut(login, ":"); set {
		u.User = url.UserPassword(user, password)
	} else if user != "" {
		u.User = url.User(user)
	}
	rest, settings, _ := strings.Cut(rest, "#")
	database, query, _ := strings.Cut(rest, "?")
	if name, err := url.PathUnescape(database); err == nil {
		database = name
	}
	u.Path, u.RawQuery = "/"+database, query
	if network == "unix" {
		u.Host = "localhost"
		u.RawQuery = strings.Trim("socket="+url.QueryEscape(address)+"&"+query, "&")
	}
	if settings != "" {
		settings = "#" + settings
	}
	return u.String() + settings
}

// socketHost turns postgres://%2Frun%2Fpg/db, whose host package url refuses, into postgres:///db?host=/run/pg.
func socketHost(text string) string {
	scheme, after, ok := strings.Cut(text, "://")
	if !ok || !strings.HasPrefix(strings.ToLower(scheme), "postgres") {
		return text
	}
	begin, end := secret.Authority(after)
	if host := after[begin:end]; len(host) > 3 && strings.EqualFold(host[:3], "%2f") {
		socket, port, _ := strings.Cut(host, ":")
		query := "host=" + socket
		if port != "" {
			query += "&port=" + port
		}
		rest, settings, fragment := strings.Cut(after[end:], "#")
		path, given, _ := strings.Cut(rest, "?")
		text = scheme + "://" + after[:begin] + path + "?" + strings.TrimSuffix(query+"&"+given, "&")
		if fragment {
			text += "#" + settings
		}
	}
	return text
}

// CutHosts returns the hosts of a URL, and the URL with only the first of them: package url refuses several.
func CutHosts(text string) (rest string, hosts []string) {
	scheme, after, ok := strings.Cut(text, "://")
	if !ok {
		return text, nil
	}
	begin, end := secret.Authority(after)
	if begin == end {
		return text, nil
	}
	hosts = strings.Split(after[begin:end], ",")
	for i := range hosts {
		hosts[i] = strings.TrimSpace(hosts[i]) // lists often have spaces
	}
	return scheme + "://" + after[:begin] + hosts[0] + after[end:], hosts
}
