package forms

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
)

// The keys of the connection strings of ADO.NET, in lower case and without spaces. The keys that only one library has
// identify the server:
// https://www.npgsql.org/doc/connection-string-parameters.html
// https://mysqlconnector.net/connection-options/
// https://learn.microsoft.com/en-us/dotnet/api/microsoft.data.sqlclient.sqlconnection.connectionstring
const (
	adoServers = " host server datasource address addr networkaddress "
	adoUsers   = " username userid uid user "
	adoOthers  = " port database db dbname initialcatalog password pwd psw sslmode sslkey driver dsn provider pooling" +
		" persistsecurityinfo timeout connecttimeout connectiontimeout commandtimeout applicationname enlist keepalive" +
		" minimumpoolsize maximumpoolsize minpoolsize maxpoolsize connectionlifetime "

	npgsqlKeys = " searchpath rootcertificate sslcertificate sslpassword sslnegotiation passfile channelbinding requireauth" +
		" targetsessionattributes loadbalancehosts hostrecheckseconds includeerrordetail kerberosservicename includerealm" +
		" clientencoding timezone options maxautoprepare autoprepareminusages multiplexing noresetonclose" +
		" gssencryptionmode connectionidlelifetime connectionpruninginterval arraynullabilitymode servercompatibilitymode db psw "
	mySQLKeys = " sslca cacertificatefile sslcert certificatefile tlsversion allowpublickeyretrieval allowuservariables" +
		" allowloadlocalinfile allowzerodatetime convertzerodatetime charset characterset guidformat oldguids" +
		" treattinyasboolean useaffectedrows usecompression defaultcommandtimeout serverrsapublickeyfile usexatransactions" +
		" dnscheckinterval serverredirectionmode nobackslashescapes pipelining connectionprotocol loadbalance "
	sqlServerKeys = " datasource initialcatalog trustedconnection integratedsecurity trustservercertificate encrypt" +
		" multipleactiveresultsets applicationintent multisubnetfailover attachdbfilename failoverpartner networklibrary "
	// keys of EasyNetQ and of ClickHouse's libraries, which also have Host= and Username=
	adoElsewhere = " virtualhost publisherconfirms prefetchcount requestedheartbeat compression usesession "
)

// adoNET reads a connection string of ADO.NET, such as Host=mydb;Username=app;Password=pw (Npgsql) or
// Server=mydb;Uid=app;Pwd=pw;SslMode=Required (MySqlConnector). A prefix postgres: or mysql: decides between them.
func adoNET(text string, kinds Table) (string, bool, error) {
	kind, rest := cutPrefix(text)
	first := adoKey(firstKey(text))
	known := false
	for _, list := range []string{adoServers, adoUsers, adoOthers, npgsqlKeys, mySQLKeys, sqlServerKeys, adoElsewhere} {
		known = known || isWord(list, first)
	}
	if !known || !strings.Contains(rest, ";") && isWord(libpqKeys, firstKey(text)) { // a form of libpq
		return "", false, nil
	}
	rest, settings := cutSettings(rest, "postgres", kinds) // MySQL has the same settings
	values, err := adoValues(rest)
	if err != nil {
		return "", true, err
	}
	if kind == "" {
		if kind, err = adoKind(values); err != nil {
			return "", true, err
		}
	}
	if kind == "mysql" || kind == "mariadb" {
		text, err = mysqlURL(values)
	} else {
		text, err = npgsqlURL(values)
	}
	return text + settings, true, err
}

// adoKey returns a key as it is in the lists: SSL Mode, SslMode and Ssl-Mode are the same.
func adoKey(key string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(key))
}

// adoValues returns the last value of each key. In a quoted value, a doubled quote stands for one
// (https://learn.microsoft.com/en-us/dotnet/api/system.data.common.dbconnectionstringbuilder.connectionstring).
func adoValues(text string) (map[string]string, error) {
	const space = " \t\r\n"
	values := map[string]string{}
	for rest := strings.Trim(text, space+";"); rest != ""; rest = strings.TrimLeft(rest, space+";") {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Contains(key, ";") {
			return nil, errors.New("a connection string is made of KEY=VALUE, separated by semicolons; put a value that contains a semicolon in quotes")
		}
		after = strings.TrimLeft(after, space)
		value := ""
		if after != "" && (after[0] == '"' || after[0] == '\'') {
			value, after, ok = adoQuoted(after)
			after = strings.TrimLeft(after, space)
		} else {
			end := strings.IndexByte(after+";", ';')
			value, after = strings.TrimRight(after[:end], space), after[end:]
		}
		if !ok || after != "" && after[0] != ';' {
			return nil, errors.New("a connection string has a quote that is not closed, or something after it: double a quote inside a quoted value")
		}
		values[adoKey(strings.TrimSpace(key))], rest = value, after
	}
	return values, nil
}

// adoQuoted reads a quoted value.
func adoQuoted(s string) (value, rest string, ok bool) {
	quote := s[:1]
	for s = s[1:]; ; s = s[1:] {
		part, after, closed := strings.Cut(s, quote)
		value += part
		if s = after; !closed || !strings.HasPrefix(s, quote) {
			return value, s, closed
		}
		value += quote
	}
}

// adoKind returns the kind of server that the keys belong to.
func adoKind(values map[string]string) (string, error) {
	has := func(list string) bool {
		for key := range values {
			if isWord(list, key) {
				return true
			}
		}
		return false
	}
	mode, port, server := values["sslmode"], values["port"], values["server"]
	switch {
	case has(" driver dsn provider "):
		return "", errors.New("connection strings of ODBC and OLE DB are not supported: write postgres://USER@HOST/DATABASE or mysql://…")
	case has(adoElsewhere), IsOneOf(port, "8123", "8443", "9000", "9440"), IsOneOf(values["protocol"], "http", "https"):
		return "", errors.New("a connection string with such keys is neither Npgsql's nor MySqlConnector's: write a URL, as in amqp://USER@HOST or clickhouse://USER@HOST")
	case has(npgsqlKeys), port == "5432", IsOneOf(mode, "disable", "allow", "prefer", "require"):
		return "postgres", nil
	case has(mySQLKeys), port == "3306", IsOneOf(mode, "none", "disabled", "preferred", "required"):
		return "mysql", nil
	case has(" host ") && has(" username "): // all of them have Server and User Id
		return "postgres", nil
	case has(sqlServerKeys) && !has(" host "), strings.HasPrefix(server, "tcp:"), strings.HasSuffix(server, ",1433"), port == "1433":
		return "", errors.New("connection strings of SQL Server (Data Source=, Initial Catalog=, Encrypt=, …) are not supported: write tcp://HOST:1433 to wait for its port, or mysql: before it if it is MySQL's")
	case has(" server ") && has(" uid user "):
		return "mysql", nil
	case !has(adoServers):
		return "", errors.New("a connection string has no host: Host= or Server= is missing")
	}
	return "", errors.New("a connection string may be Npgsql's or MySqlConnector's: write postgres: or mysql: before it, as in postgres:Server=…")
}

// adoValue returns the value of the first key in a list that has one.
func adoValue(values map[string]string, keys string) string {
	for key := range strings.FieldsSeq(keys) {
		if values[key] != "" {
			return values[key]
		}
	}
	return ""
}

// adoHosts returns the hosts, without brackets, and their ports, which may be empty. A host may be the path of a socket
// or of its directory.
func adoHosts(values map[string]string) (hosts, ports []string, err error) {
	for host := range strings.SplitSeq(adoValue(values, adoServers), ",") {
		host, port := strings.TrimSpace(host), ""
		if !strings.HasPrefix(host, "/") {
			host, port = splitPort(host)
		}
		port = cmp.Or(port, values["port"])
		switch {
		case host == "":
			return nil, nil, errors.New("a connection string has no host: Host= or Server= is missing, or there is a comma too many")
		case !isHostPort(host, port) && (!strings.HasPrefix(host, "/") || !isHostPort("socket", port)):
			return nil, nil, errors.New("a connection string has an invalid host, or a port that is not a number: want HOST, HOST:PORT or /PATH, joined by commas")
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	return hosts, ports, nil
}

// npgsqlURL returns the URL for Npgsql's values, by way of libpq's.
func npgsqlURL(values map[string]string) (string, error) {
	hosts, ports, err := adoHosts(values)
	if err != nil {
		return "", err
	}
	known := map[string]string{"host": strings.Join(hosts, ",")}
	if strings.Trim(strings.Join(ports, ""), ",") != "" {
		known["port"] = strings.Join(ports, ",")
	}
	for _, p := range []struct{ libpq, keys string }{
		{"dbname", "database db dbname initialcatalog"},
		{"user", adoUsers},
		{"password", "password pwd psw"},
		{"passfile", "passfile"},
		{"application_name", "applicationname"},
		{"options", "options"},
		{"sslrootcert", "rootcertificate sslrootcert"},
		{"sslcert", "sslcertificate sslcert"},
		{"sslkey", "sslkey"},
		{"sslmode", "sslmode"},
		{"sslnegotiation", "sslnegotiation"},
		{"channel_binding", "channelbinding"},
		{"require_auth", "requireauth"},
		{"target_session_attrs", "targetsessionattributes targetsessionattrs"},
	} {
		value := adoValue(values, p.keys)
		if isWord(" sslmode sslnegotiation channel_binding require_auth target_session_attrs ", p.libpq) {
			value = npgsqlWords(value)
		}
		if value != "" {
			known[p.libpq] = value
		}
	}
	return libpqURL(known), nil
}

// npgsqlWords translates Npgsql's words to libpq's.
func npgsqlWords(value string) string {
	value = strings.ToLower(value)
	switch value {
	case "verifyca":
		return "verify-ca"
	case "verifyfull":
		return "verify-full"
	case "prefer-primary":
		return "any"
	}
	return strings.ReplaceAll(value, "scramsha256", "scram-sha-256")
}

// mysqlURL returns the URL for values of MySqlConnector or of Oracle's Connector/NET.
func mysqlURL(values map[string]string) (string, error) {
	socket := values["unixsocket"] + values["unix_socket"]
	if socket == "" && strings.HasPrefix(adoValue(values, adoServers), "/") {
		socket = adoValue(values, adoServers)
	}
	u, query := url.URL{Scheme: "mysql", Host: "localhost"}, url.Values{}
	if socket != "" {
		query.Set("socket", socket)
	} else {
		hosts, ports, err := adoHosts(values)
		if err != nil {
			return "", err
		}
		for i := range hosts {
			hosts[i] = joined(hosts[i], ports[i])
		}
		u.Host = strings.Join(hosts, ",")
	}
	for _, p := range []struct{ name, keys string }{
		{"ssl-mode", "sslmode"},
		{"ssl-ca", "sslca cacertificatefile"},
		{"ssl-cert", "sslcert"},
		{"ssl-key", "sslkey"},
		{"allowPublicKeyRetrieval", "allowpublickeyretrieval"},
	} {
		if value := adoValue(values, p.keys); value != "" {
			query.Set(p.name, value)
		}
	}
	switch strings.ToLower(query.Get("ssl-mode")) {
	case "none":
		query.Set("ssl-mode", "disabled")
	case "verifyca":
		query.Set("ssl-mode", "verify-ca")
	case "verifyfull":
		query.Set("ssl-mode", "verify-full")
	}
	return urlOf(u, query, adoValue(values, adoUsers), adoValue(values, "password pwd"), "database", adoValue(values, "database initialcatalog")), nil
}
