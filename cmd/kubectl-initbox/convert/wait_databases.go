package convert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// pgIsReady is pg_isready, which does not log in: https://www.postgresql.org/docs/current/app-pg-isready.html. Its user
// and its database, which need not exist, change nothing.
func pgIsReady(a *asked) (Step, error) {
	switch {
	case setsHost(a.database):
		return Step{}, stop(a.database, "a connection string")
	case len(a.args) > 0:
		return Step{}, stop(a.args[0], "an argument of pg_isready")
	}
	a.database = nil
	text, err := a.target("postgres")
	step := wait("pg_isready does not log in, either", text)
	step.differs("a server that has too many connections is not ready")
	step.implied = hasVariable(a.c, "PGUSER")
	if len(a.c.EnvFrom) > 0 {
		step.differs("if envFrom has PGUSER, the login must succeed, too")
	}
	return step, err
}

// setsHost reports whether the name of a database is, or may be, a connection string.
func setsHost(w shell.Word) bool { return strings.ContainsAny(w.String(), "=:/") }

// psqlServer returns the target of psql's connection, and its query, or nil for -l.
func psqlServer(a *asked) (text string, query shell.Word, err error) {
	for option, value := range map[string]string{"o": "/dev/null", "v": "ON_ERROR_STOP=1", "F": "", "P": ""} {
		if w := a.get(option); w != nil { // it may change what a query prints, beside -t and -A
			if text, ok := w.Literal(); !ok || value == "" || text != value && text != strings.ReplaceAll(value, "1", "on") {
				return "", nil, stop(w, "a setting of psql")
			}
		}
	}
	list := a.has("l")
	query = a.get("c")
	if (query == nil) != list || len(a.options["c"]) > 1 || len(a.args) > 2 {
		return "", nil, a.refuse("not called with one -c, or with -l")
	}
	named := append(slices.Clone(a.options["d"]), a.args...)
	if len(named) > 0 && (len(named[0]) == 1 && named[0][0].Env != "" || setsHost(named[0])) && !a.has("h") {
		if text, err = connectionString(named[0], a.c); text != "" || err != nil {
			if len(named) > 1 || list {
				return "", nil, stop(named[0], "a connection string together with other options")
			}
			return text, query, err
		}
	}
	if list {
		a.database = shell.Word{{Text: "postgres"}}
	}
	if len(named) > 0 {
		a.database = named[0]
	}
	if len(named) > 1 {
		a.user = named[1]
	}
	switch {
	case a.host == nil:
		return "", nil, a.noServer()
	case a.user == nil:
		return "", nil, a.refuse("without a user it logs in as the user of the image")
	case setsHost(a.database):
		return "", nil, stop(a.database, "a connection string together with other options")
	case setFor(a.call, "PGSSLMODE") || setFor(a.call, "PGSSLROOTCERT"):
		return "", nil, &shell.Error{Pos: a.call.Pos, Word: "PGSSL…=", Why: "a variable that is set for psql alone"}
	}
	text, err = a.target("postgres")
	return text, query, err
}

// connectionString returns a whole connection string as a target: the variable of a Secret, or one whose value has no
// password. It returns "" for a word that is not one.
func connectionString(w shell.Word, c *manifest.Container) (string, error) {
	text, ok := known(w, c)
	switch {
	case len(w) == 1 && w[0].Env != "" && w[0].Default == nil && !ok:
		if v := lookup(w[0].Env, c); v.origin != inSecret {
			return "", stop(w, "the value is not known: a name of a database, or a connection string")
		}
		return "${env:" + w[0].Env + "}", nil
	case ok && (strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")) && len(w) == 1 && w[0].Env != "":
		return "${env:" + w[0].Env + "}", nil
	case setsHost(w):
		return "", stop(shell.Word{{Text: "a connection string"}}, "it is made of several variables, or stands in the script; psql -h HOST -U USER would be understood")
	}
	return "", nil
}

// harmless are queries that succeed when the login does.
var harmless = lazy.Regexp(`(?i)^\s*(select\s+(1|true|version\(\)|now\(\)|current_timestamp)|\\q|\\l|\\conninfo|)\s*(;\s*)?$`)

const loggedIn = "the server accepts the login, and answers a query"

// harmlessQuery returns an error for a query in the condition of a loop, where its status says that it had no error,
// whatever it found, unless it is known to succeed.
func harmlessQuery(query shell.Word, known func(sql string) bool) error {
	if sql, ok := query.Literal(); !ok || !known(sql) {
		return stop(query, "a query whose errors count and whose result does not; initbox waits until a query is true")
	}
	return nil
}

func psql(a *asked) (Step, error) {
	text, query, err := psqlServer(a)
	if err == nil && query != nil {
		err = harmlessQuery(query, harmless().MatchString)
	}
	return attempted(loggedIn, text), err
}

var (
	selection   = lazy.Regexp(`(?i)^\s*(select\s[^;]*?);?\s*$`)
	selectsOne  = lazy.Regexp(`(?i)^\s*select\s+1\s+from\s`)
	selectsBool = lazy.Regexp(`(?i)^\s*select\s+exists\s*\(`)
	setsOf      = lazy.Regexp(`(?i)\b(union|intersect|except|into|for\s+update)\b`)
)

// selectIn returns the only SELECT of a query, whose value is the same in brackets.
func selectIn(query shell.Word) (string, error) {
	sql, ok := query.Literal()
	if found := selection().FindStringSubmatch(sql); ok && found != nil && !setsOf().MatchString(sql) {
		return found[1], nil
	}
	return "", stop(query, "a query that is not a single SELECT")
}

// psqlMatch compares the one value that psql prints.
func psqlMatch(a *asked, m *shell.Match) (Step, error) {
	text, query, err := psqlServer(a)
	if err != nil {
		return Step{}, err
	}
	sql, err := selectIn(query)
	if err != nil {
		return Step{}, err
	}
	condition, err := sqlCondition(m, sql, a.has("t") && a.has("A"))
	return attempted("the value that psql prints is as compared", text+"#query="+settingPlace.encode(condition)), err
}

// sqlCondition returns a query that is true when what psql prints of another one is as compared. As a value, a query
// with several rows is an error, as several lines are never equal to one.
func sqlCondition(m *shell.Match, sql string, plain bool) (string, error) {
	want, err := patternOf(m)
	if err != nil {
		return "", err
	}
	numeric := want != "" && strings.Trim(want, "0123456789") == ""
	switch {
	case strings.HasPrefix(m.Op, "grep") && want == "1" && selectsOne().MatchString(sql):
		return sql, nil // "(0 rows)" has no 1, either
	case !plain:
		return "", noMatch(m, "without -t and -A, psql prints more than the value")
	case (m.Op == "=" || m.Op == "==" || strings.HasPrefix(m.Op, "grep")) && want == "t" && selectsBool().MatchString(sql):
		return sql, nil
	case (m.Op == "=" || m.Op == "==") && want != "" && want != "t" && want != "f":
		return "SELECT (" + sql + ")::text = '" + strings.ReplaceAll(want, "'", "''") + "'", nil
	case numeric && sqlOperators[m.Op] != "":
		return "SELECT (" + sql + ")::numeric " + sqlOperators[m.Op] + " " + want, nil
	}
	return "", noMatch(m, "a comparison that initbox does not have")
}

var sqlOperators = map[string]string{"-eq": "=", "-ge": ">=", "-gt": ">", "-le": "<=", "-lt": "<"}

// mysqlLogin has the options of all of MySQL's clients.
const mysqlLogin = "h host=; P port=; u user=; p password?; protocol=; connect-timeout connect_timeout=; skip-ssl; ssl-mode=; ssl;"

// mysqlServer returns the target for the options, with a login or without one.
func mysqlServer(a *asked, login bool) (string, error) {
	if a.has("p") && len(a.get("p")) == 0 {
		return "", stop(shell.Word{{Text: "-p"}}, "without a value it asks for the password")
	}
	if host, _ := known(a.host, a.c); a.host == nil || host == "localhost" {
		return "", a.noServer()
	}
	if w := a.get("protocol"); w != nil {
		if text, _ := w.Literal(); !strings.EqualFold(text, "tcp") {
			return "", stop(w, "a protocol other than TCP")
		}
	}
	if !login {
		a.user, a.password = nil, nil
		return a.target("mysql")
	}
	if err := a.noVariables("MYSQL_", "MYSQL_PWD MYSQL_USER MYSQL_PASSWORD MYSQL_DATABASE MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_PORT "+
		"MYSQL_SERVICE_HOST MYSQL_SERVICE_PORT MYSQL_HOSTNAME MYSQL_USERNAME MYSQL_DB MYSQL_PASS MYSQL_ADDR MYSQL_SERVER"); err != nil {
		return "", err
	}
	if a.user == nil {
		return "", a.refuse("without a user it logs in as the user of the image")
	}
	text, err := a.target("mysql")
	switch mode := strings.ToUpper(a.get("ssl-mode").String()); {
	case err != nil:
		return "", err
	case a.has("skip-ssl"), mode == "DISABLED":
		if a.database == nil {
			text += "/"
		}
		text += "?ssl-mode=DISABLED"
	case mode != "" && mode != "PREFERRED", a.has("ssl"):
		return "", &shell.Error{Pos: a.call.Pos, Word: "--ssl-mode", Why: "not one that is translated"}
	}
	return text, nil
}

// mysqladmin is mysqladmin ping, which succeeds even if the login is refused, or status, for which it must succeed:
// https://dev.mysql.com/doc/refman/8.4/en/mysqladmin.html
func mysqladmin(a *asked) (Step, error) {
	switch {
	case a.called("ping"):
		text, err := mysqlServer(a, false)
		return wait("mysqladmin ping succeeds even if the login is refused: the server answers", text), err
	case a.called("status"):
		text, err := mysqlServer(a, true)
		return attempted(loggedIn, text), err
	case len(a.args) == 1:
		return Step{}, stop(a.args[0], "not ping or status alone")
	}
	return Step{}, a.refuse("not ping or status alone")
}

// harmlessMySQL are queries that succeed when the login does.
var harmlessMySQL = lazy.Regexp(`(?i)^\s*(select\s+(1|true|version\(\)|now\(\)|current_timestamp)|\\q|quit|exit|status|\\s|show\s+databases|)\s*(;\s*)?$`)

// mysqlQuery returns the target of mysql -e QUERY, and the query.
func mysqlQuery(a *asked) (text string, query shell.Word, err error) {
	if query = a.get("e"); query == nil || len(a.args) > 1 || len(a.options["e"]) > 1 {
		return "", nil, a.refuse("not called with one -e")
	}
	if len(a.args) == 1 {
		a.database = a.args[0]
	}
	text, err = mysqlServer(a, true)
	return text, query, err
}

func mysql(a *asked) (Step, error) {
	text, query, err := mysqlQuery(a)
	if err == nil {
		err = harmlessQuery(query, harmlessMySQL().MatchString)
	}
	return attempted(loggedIn, text), err
}

// mysqlMatch compares the one value that mysql -N -B prints, as psqlMatch does.
func mysqlMatch(a *asked, m *shell.Match) (Step, error) {
	text, query, err := mysqlQuery(a)
	if err != nil {
		return Step{}, err
	}
	sql, err := selectIn(query)
	if err != nil {
		return Step{}, err
	}
	want, err := patternOf(m)
	operator := sqlOperators[m.Op]
	if m.Op == "=" || m.Op == "==" {
		operator = "="
	}
	if err == nil && (!a.has("N") || operator == "" || want == "" || strings.Trim(want, "0123456789") != "") {
		err = noMatch(m, "not a number that is compared with what mysql -N prints")
	}
	return attempted("the value that mysql prints is as compared", text+"#query="+settingPlace.encode("SELECT ("+sql+") "+operator+" "+want)), err
}

// loginCounts is the difference to redis-cli, which only warns if AUTH fails, and goes on.
const loginCounts = "the login must succeed, also at a server that has no password: redis-cli only warns"

// redisServer returns the step that waits for the server of redis-cli, and whether it logs in.
func redisServer(a *asked) (s Step, login bool, err error) {
	if a.has("user") && a.password == nil {
		return s, false, &shell.Error{Pos: a.call.Pos, Word: "--user", Why: "a user without a password"}
	}
	if a.database != nil {
		if n, err := strconv.Atoi(a.database.String()); err != nil || n < 0 {
			return s, false, stop(a.database, "not the number of a database")
		}
	}
	scheme, settings := "redis", []string{}
	if a.has("tls") {
		scheme = "rediss"
		if a.has("cert") || a.has("key") {
			return s, false, &shell.Error{Pos: a.call.Pos, Word: "--cert", Why: "a client's certificate"}
		}
		settings, err = tlsSettings(a.given, "cacert", "insecure", "sni", a.c)
	}
	text, failed := a.target(scheme)
	s = wait("the server answers PING with PONG", text+fragment(settings))
	s.Writes = strings.Contains(text+fragment(settings), "ca-file=")
	if login = a.password != nil || variableWord("REDISCLI_AUTH", a.call, a.c) != nil; login {
		s.differs(loginCounts)
	}
	return s, login, cmp.Or(err, failed)
}

// redisCLI is redis-cli ping in the condition of a loop. It succeeds with any answer, also NOAUTH, so that without a
// password only the port is waited for; with one, an application could do nothing with a server that refuses it.
func redisCLI(a *asked) (Step, error) {
	s, login, err := redisServer(a)
	switch {
	case err != nil:
	case !a.called("ping"):
		err = a.refuse("not called with ping alone")
	case !login && (a.has("tls") || a.host == nil):
		err = stop(a.args[0], "without a password, redis-cli succeeds with any answer, also NOAUTH; compare it with PONG")
	case !login:
		if a.port == nil {
			a.port = shell.Word{{Text: "6379"}}
		}
		s, err = tcp("tcp", a.host, a.port, a.c)
		s.differs("a connection is enough; redis-cli waits for an answer, and without a password it succeeds with any, also NOAUTH")
		return s, err
	}
	s.differs("the answer must be PONG: redis-cli also succeeds with an error, such as LOADING or a refused password")
	return s, err
}

// redisMatch compares what redis-cli prints.
func redisMatch(a *asked, m *shell.Match) (Step, error) {
	s, _, err := redisServer(a)
	if err != nil {
		return Step{}, err
	}
	want, err := patternOf(m)
	grep := strings.HasPrefix(m.Op, "grep")
	switch master := grep && !strings.Contains(s.Args[0], "#"); {
	case err != nil:
	case a.called("ping") && (want == "PONG" && (grep || m.Op == "=" || m.Op == "==") || grep && want == "^PONG$"):
	case master && a.called("role") && (want == "^master" || want == "^master$"),
		master && (a.called("info", "replication") || a.called("info")) && want == "role:master":
		s.Args[0], s.Why = s.Args[0]+"#role=master", "the server reports the role master"
	default:
		err = noMatch(m, "an answer of redis-cli that initbox does not have")
	}
	return s, err
}
