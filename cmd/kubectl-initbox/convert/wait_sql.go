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

// server is the server that a client connects to, and as whom. What is nil was not given.
type server struct{ host, port, user, password, database shell.Word }

// target returns the target without settings: SCHEME://USER:PASSWORD@HOST:PORT/DATABASE.
func (s server) target(scheme string, c *manifest.Container) (string, error) {
	login, err := credentials(s.user, s.password, c)
	if err != nil {
		return "", err
	}
	where, err := hostPort(s.host, s.port, c)
	if err != nil {
		return "", err
	}
	text := scheme + "://" + login + where
	if s.database != nil {
		name, err := namePlace.in(s.database, c)
		if err != nil {
			return "", err
		}
		text += "/" + name
	}
	return text, nil
}

// clientVariables returns an error for a variable, of the container or in front of the call, that a client reads and
// initbox would read differently or not at all. Those in known are translated.
func clientVariables(call *shell.Call, c *manifest.Container, prefix, known string) error {
	names := []string{}
	for _, s := range call.Set {
		names = append(names, s.Name)
	}
	for _, e := range c.Env {
		names = append(names, e.Name)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !set(known)[name] {
			return &shell.Error{Pos: call.Pos, Word: name, Why: "a variable that changes what " + call.Name + " does"}
		}
	}
	return nil
}

// setFor reports whether a variable is set in front of the call, so that initbox will not find it in its environment.
func setFor(call *shell.Call, name string) bool {
	return slices.ContainsFunc(call.Set, func(s shell.Assignment) bool { return s.Name == name })
}

func noServer(call *shell.Call) error {
	return &shell.Error{Pos: call.Pos, Word: call.Name, Why: "without a host it uses a socket or a default of the image"}
}

// pgIsReady is pg_isready, which does not log in: https://www.postgresql.org/docs/current/app-pg-isready.html. Its user
// changes nothing.
func pgIsReady(g given, call *shell.Call, c *manifest.Container) (Step, error) {
	if err := clientVariables(call, c, "PG", "PGHOST PGPORT PGDATABASE PGPASSWORD PGCONNECT_TIMEOUT PGDATA"); err != nil {
		return Step{}, err
	}
	s := server{host: or(g.get("h"), variableWord("PGHOST", call, c)), port: or(g.get("p"), variableWord("PGPORT", call, c)), database: g.get("d")}
	switch {
	case s.host == nil && s.database != nil && setsHost(s.database):
		return Step{}, stop(s.database, "a connection string")
	case s.host == nil || strings.HasPrefix(leading(s.host), "/"):
		return Step{}, noServer(call)
	case len(g.args) > 0:
		return Step{}, stop(g.args[0], "an argument of pg_isready")
	case setsHost(s.database):
		return Step{}, stop(s.database, "a connection string")
	}
	s.database = nil // it need not exist
	text, err := s.target("postgres", c)
	if err != nil {
		return Step{}, err
	}
	step := wait("pg_isready does not log in, either", text)
	step.Differs = []string{"a server that has too many connections is not ready"}
	if len(c.EnvFrom) > 0 {
		step.Differs = append(step.Differs, "if envFrom has PGUSER, the login must succeed, too")
	}
	return step, nil
}

// setsHost reports whether the name of a database is, or may be, a connection string.
func setsHost(w shell.Word) bool { return strings.ContainsAny(w.String(), "=:/") }

func or(a, b shell.Word) shell.Word {
	if a != nil {
		return a
	}
	return b
}

const psqlOptions = `h host=; p port=; U username=; d dbname=; c command=; l list; t tuples-only; A no-align; q quiet; w no-password;
	X no-psqlrc; b echo-errors; v set variable=; F field-separator=; o output=; P pset=; 1 single-transaction; n no-readline`

// psqlServer returns the target of psql's connection, and its query, or nil for -l.
func psqlServer(call *shell.Call, c *manifest.Container) (text string, query shell.Word, err error) {
	g, err := optionsOf(psqlOptions).read(call.Args)
	if err != nil {
		return "", nil, err
	}
	if err := clientVariables(call, c, "PG", "PGHOST PGPORT PGDATABASE PGUSER PGPASSWORD PGSSLMODE PGSSLROOTCERT PGCONNECT_TIMEOUT PGDATA"); err != nil {
		return "", nil, err
	}
	if err := psqlOutput(g); err != nil {
		return "", nil, err
	}
	list := g.has("l")
	query = g.get("c")
	if (query == nil) != list || len(g.options["c"]) > 1 || len(g.args) > 2 {
		return "", nil, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with one -c, or with -l"}
	}
	named := append(slices.Clone(g.options["d"]), g.args...)
	if len(named) > 0 && (len(named[0]) == 1 && named[0][0].Env != "" || setsHost(named[0])) && g.get("h") == nil {
		if text, err = connectionString(named[0], c); text != "" || err != nil {
			if len(named) > 1 || list {
				return "", nil, stop(named[0], "a connection string together with other options")
			}
			return text, query, err
		}
	}
	s := server{host: or(g.get("h"), variableWord("PGHOST", call, c)), port: or(g.get("p"), variableWord("PGPORT", call, c)), user: or(g.get("U"), variableWord("PGUSER", call, c))}
	s.database = variableWord("PGDATABASE", call, c)
	if len(named) > 0 {
		s.database = named[0]
	}
	if len(named) > 1 {
		s.user = named[1]
	}
	if list && len(named) == 0 {
		s.database = shell.Word{{Text: "postgres"}}
	}
	switch {
	case s.host == nil || strings.HasPrefix(leading(s.host), "/"):
		return "", nil, noServer(call)
	case s.user == nil:
		return "", nil, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "without a user it logs in as the user of the image"}
	case setsHost(s.database):
		return "", nil, stop(s.database, "a connection string together with other options")
	}
	if setFor(call, "PGPASSWORD") {
		s.password = variableWord("PGPASSWORD", call, c)
	}
	if setFor(call, "PGSSLMODE") || setFor(call, "PGSSLROOTCERT") {
		return "", nil, &shell.Error{Pos: call.Pos, Word: "PGSSL…=", Why: "a variable that is set for psql alone"}
	}
	text, err = s.target("postgres", c)
	return text, query, err
}

// psqlOutput allows only what does not change what a query prints, beside -t and -A.
func psqlOutput(g given) error {
	for _, option := range []struct{ name, value string }{{"o", "/dev/null"}, {"v", "ON_ERROR_STOP=1"}} {
		if w := g.get(option.name); w != nil {
			if text, ok := w.Literal(); !ok || text != option.value && text != strings.ReplaceAll(option.value, "1", "on") {
				return stop(w, "a setting of psql")
			}
		}
	}
	if w := or(g.get("F"), g.get("P")); w != nil {
		return stop(w, "a setting of psql")
	}
	return nil
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

// psql is psql in the condition of a loop: its status says that the query had no error, whatever it found.
func psql(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	text, query, err := psqlServer(call, c)
	if err != nil {
		return Step{}, err
	}
	if query != nil {
		if sql, ok := query.Literal(); !ok || !harmless().MatchString(sql) {
			return Step{}, stop(query, "a query whose errors count and whose result does not; initbox waits until a query is true")
		}
	}
	return sqlStep("the server accepts the login, and answers a query", text), nil
}

func sqlStep(why, text string) Step {
	s := wait(why, text)
	s.Differs = []string{attemptEnds}
	return s
}

var (
	selection   = lazy.Regexp(`(?i)^\s*(select\s[^;]*?);?\s*$`)
	selectsOne  = lazy.Regexp(`(?i)^\s*select\s+1\s+from\s`)
	selectsBool = lazy.Regexp(`(?i)^\s*select\s+exists\s*\(`)
	setsOf      = lazy.Regexp(`(?i)\b(union|intersect|except|into|for\s+update)\b`)
)

// psqlMatch compares the one value that psql prints.
func psqlMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	if err := noPipes(m.Call); err != nil {
		return Step{}, err
	}
	text, query, err := psqlServer(m.Call, c)
	if err != nil {
		return Step{}, err
	}
	sql, ok := query.Literal()
	found := selection().FindStringSubmatch(sql)
	if !ok || found == nil || setsOf().MatchString(sql) {
		return Step{}, stop(query, "a query that is not a single SELECT")
	}
	g, _ := optionsOf(psqlOptions).read(m.Call.Args)
	condition, err := sqlCondition(m, found[1], g.has("t") && g.has("A"))
	if err != nil {
		return Step{}, err
	}
	if !strings.Contains(strings.TrimPrefix(text, "postgres://"), "@") && !strings.HasPrefix(text, "${env:") {
		return Step{}, noServer(m.Call)
	}
	return sqlStep("the value that psql prints is as compared", text+"#query="+settingPlace.encode(condition)), nil
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
	case (m.Op == "=" || m.Op == "==") && want == "t" && selectsBool().MatchString(sql),
		strings.HasPrefix(m.Op, "grep") && want == "t" && selectsBool().MatchString(sql):
		return sql, nil
	case (m.Op == "=" || m.Op == "==") && want != "" && want != "t" && want != "f":
		return "SELECT (" + sql + ")::text = '" + strings.ReplaceAll(want, "'", "''") + "'", nil
	case numeric && sqlOperators[m.Op] != "":
		return "SELECT (" + sql + ")::numeric " + sqlOperators[m.Op] + " " + want, nil
	}
	return "", noMatch(m, "a comparison that initbox does not have")
}

var sqlOperators = map[string]string{"-eq": "=", "-ge": ">=", "-gt": ">", "-le": "<=", "-lt": "<"}

const mysqlOptions = `h host=; P port=; u user=; s silent; protocol=; connect-timeout connect_timeout=; e execute=; D database=; N skip-column-names;
	B batch; skip-ssl; ssl-mode=; v verbose; no-defaults; ssl; w wait; default-character-set=`

// mysqlOptionsOf reads the options of MySQL's clients, whose -p has its value in the same word, or none.
func mysqlOptionsOf(call *shell.Call) (g given, password shell.Word, err error) {
	var rest []shell.Word
	for _, w := range call.Args {
		switch begin := leading(w); {
		case strings.HasPrefix(begin, "--password="):
			password = behind(w, len("--password="))
		case strings.HasPrefix(begin, "-p"):
			password = behind(w, len("-p"))
		default:
			rest = append(rest, w)
			continue
		}
		if len(password) == 0 {
			return g, nil, stop(shell.Word{{Text: "-p"}}, "without a value it asks for the password")
		}
	}
	g, err = optionsOf(mysqlOptions).read(rest)
	if err == nil && g.has("w") {
		err = stop(shell.Word{{Text: "-w"}}, "an option that is not known to mean the same here")
	}
	return g, password, err
}

// mysqlTarget returns the target for the options, with a login or without one.
func mysqlTarget(g given, password shell.Word, login bool, call *shell.Call, c *manifest.Container) (string, error) {
	if err := clientVariables(call, c, "MYSQL_", "MYSQL_PWD MYSQL_USER MYSQL_PASSWORD MYSQL_DATABASE MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_PORT "+
		"MYSQL_SERVICE_HOST MYSQL_SERVICE_PORT MYSQL_HOSTNAME MYSQL_USERNAME MYSQL_DB MYSQL_PASS MYSQL_ADDR MYSQL_SERVER"); login && err != nil {
		return "", err
	}
	s := server{host: g.get("h"), port: g.get("P")}
	if host, _ := known(s.host, c); s.host == nil || host == "localhost" {
		return "", noServer(call)
	}
	if w := g.get("protocol"); w != nil {
		if text, _ := w.Literal(); !strings.EqualFold(text, "tcp") {
			return "", stop(w, "a protocol other than TCP")
		}
	}
	query := ""
	if login {
		s.user, s.password, s.database = g.get("u"), password, g.get("D")
		if s.user == nil {
			return "", &shell.Error{Pos: call.Pos, Word: call.Name, Why: "without a user it logs in as the user of the image"}
		}
		if password == nil && setFor(call, "MYSQL_PWD") {
			s.password = variableWord("MYSQL_PWD", call, c)
		}
		switch mode := strings.ToUpper(g.get("ssl-mode").String()); {
		case g.has("skip-ssl"), mode == "DISABLED":
			query = "?ssl-mode=DISABLED"
		case mode != "" && mode != "PREFERRED", g.has("ssl"):
			return "", &shell.Error{Pos: call.Pos, Word: "--ssl-mode", Why: "not one that is translated"}
		}
	}
	text, err := s.target("mysql", c)
	if query != "" && s.database == nil {
		query = "/" + query
	}
	return text + query, err
}

// mysqladmin is mysqladmin ping, which succeeds even if the login is refused, or status, for which it must succeed:
// https://dev.mysql.com/doc/refman/8.4/en/mysqladmin.html
func mysqladmin(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	g, password, err := mysqlOptionsOf(call)
	if err != nil {
		return Step{}, err
	}
	word := shell.Word{}
	if len(g.args) == 1 {
		word = g.args[0]
	}
	switch what, _ := word.Literal(); what {
	case "ping":
		text, err := mysqlTarget(g, nil, false, call, c)
		if err != nil {
			return Step{}, err
		}
		return wait("mysqladmin ping succeeds even if the login is refused: the server answers", text), nil
	case "status", "version":
		text, err := mysqlTarget(g, password, true, call, c)
		if err != nil {
			return Step{}, err
		}
		return sqlStep("the server accepts the login, and answers a query", text), nil
	}
	return Step{}, &shell.Error{Pos: call.Pos, Word: cmp.Or(word.String(), call.Name), Why: "not ping or status alone"}
}

// harmlessMySQL are queries that succeed when the login does.
var harmlessMySQL = lazy.Regexp(`(?i)^\s*(select\s+(1|true|version\(\)|now\(\)|current_timestamp)|\\q|quit|exit|status|\\s|show\s+databases|)\s*(;\s*)?$`)

// mysql is mysql -e QUERY in the condition of a loop: its status says that the query had no error.
func mysql(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	g, password, err := mysqlOptionsOf(call)
	if err != nil {
		return Step{}, err
	}
	query := g.get("e")
	if query == nil || len(g.args) > 1 || len(g.options["e"]) > 1 {
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with one -e"}
	}
	if len(g.args) == 1 {
		g.options["D"] = g.args
	}
	if sql, ok := query.Literal(); !ok || !harmlessMySQL().MatchString(sql) {
		return Step{}, stop(query, "a query whose errors count and whose result does not; initbox waits until a query is true")
	}
	text, err := mysqlTarget(g, password, true, call, c)
	if err != nil {
		return Step{}, err
	}
	return sqlStep("the server accepts the login, and answers a query", text), nil
}

// mysqlMatch compares the one value that mysql -N -B prints, as psqlMatch does.
func mysqlMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	if err := noPipes(m.Call); err != nil {
		return Step{}, err
	}
	g, password, err := mysqlOptionsOf(m.Call)
	if err != nil {
		return Step{}, err
	}
	query := g.get("e")
	sql, _ := query.Literal()
	found := selection().FindStringSubmatch(sql)
	want, err := patternOf(m)
	numeric := want != "" && strings.Trim(want, "0123456789") == ""
	switch {
	case err != nil:
		return Step{}, err
	case query == nil || found == nil || setsOf().MatchString(sql) || len(g.args) > 1:
		return Step{}, &shell.Error{Pos: m.Call.Pos, Word: m.Call.Name, Why: "not called with one SELECT"}
	case !g.has("N") || !numeric || sqlOperators[strings.Replace(m.Op, "=", "-eq", 1)] == "" && sqlOperators[m.Op] == "":
		return Step{}, noMatch(m, "not a number that is compared with what mysql -N prints")
	}
	if len(g.args) == 1 {
		g.options["D"] = g.args
	}
	text, err := mysqlTarget(g, password, true, m.Call, c)
	if err != nil {
		return Step{}, err
	}
	operator := cmp.Or(sqlOperators[m.Op], "=")
	return sqlStep("the value that mysql prints is as compared", text+"#query="+settingPlace.encode("SELECT ("+found[1]+") "+operator+" "+want)), nil
}

// redisServer returns the target of redis-cli, and the command that it sends.
func redisServer(call *shell.Call, c *manifest.Container) (text string, command []shell.Word, login bool, err error) {
	g, err := optionsOf("h=; p=; a pass=; user=; n=; no-auth-warning; raw; no-raw; e; t=; tls; cacert=; insecure; cert=; key=; sni=").read(call.Args)
	if err != nil {
		return "", nil, false, err
	}
	if err := clientVariables(call, c, "REDISCLI_", "REDISCLI_AUTH"); err != nil {
		return "", nil, false, err
	}
	s := server{host: g.get("h"), port: g.get("p"), user: g.get("user"), password: g.get("a")}
	if s.password == nil && setFor(call, "REDISCLI_AUTH") {
		s.password = variableWord("REDISCLI_AUTH", call, c)
	}
	switch {
	case s.host == nil:
		return "", nil, false, noServer(call)
	case g.has("user") && s.password == nil:
		return "", nil, false, &shell.Error{Pos: call.Pos, Word: "--user", Why: "a user without a password"}
	case g.has("n"):
		if n, err := strconv.Atoi(g.get("n").String()); err != nil || n < 0 {
			return "", nil, false, stop(g.get("n"), "not the number of a database")
		}
		s.database = g.get("n")
	}
	scheme := "redis"
	if g.has("tls") {
		scheme = "rediss"
	}
	if text, err = s.target(scheme, c); err != nil {
		return "", nil, false, err
	}
	if g.has("tls") {
		settings, err := tlsSettings(g, "cacert", "insecure", "sni", c)
		if err != nil || g.has("cert") || g.has("key") {
			return "", nil, false, cmp.Or(err, error(&shell.Error{Pos: call.Pos, Word: "--cert", Why: "a client's certificate"}))
		}
		text += fragment(settings)
	}
	return text, g.args, s.password != nil || variableWord("REDISCLI_AUTH", call, c) != nil, nil
}

// loginCounts is the difference to redis-cli, which only warns if AUTH fails, and goes on.
const loginCounts = "the login must succeed, also at a server that has no password: redis-cli only warns"

func isCommand(command []shell.Word, name string) bool {
	if len(command) != 1 {
		return false
	}
	text, ok := command[0].Literal()
	return ok && strings.EqualFold(text, name)
}

// redisCLI is redis-cli ping in the condition of a loop. It succeeds with any answer, also NOAUTH, so that without a
// password nothing here is the same; with one, an application could do nothing with a server that refuses it.
func redisCLI(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	text, command, login, err := redisServer(call, c)
	switch {
	case err != nil:
		return Step{}, err
	case !isCommand(command, "ping"):
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with ping alone"}
	case !login:
		return Step{}, stop(command[0], "without a password, redis-cli succeeds with any answer, also NOAUTH; compare it with PONG")
	}
	s := wait("the server answers PING", text)
	s.Differs = []string{"the answer must be PONG: redis-cli also succeeds with an error, such as LOADING or a refused password", loginCounts}
	s.Writes = strings.Contains(text, "ca-file=")
	return s, nil
}

// redisMatch compares what redis-cli prints.
func redisMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	if err := noPipes(m.Call); err != nil {
		return Step{}, err
	}
	text, command, login, err := redisServer(m.Call, c)
	if err != nil {
		return Step{}, err
	}
	want, err := patternOf(m)
	if err != nil {
		return Step{}, err
	}
	equal := m.Op == "=" || m.Op == "==" || strings.HasPrefix(m.Op, "grep")
	step := wait("the server answers PING with PONG", text)
	if login {
		step.Differs = []string{loginCounts}
	}
	step.Writes = strings.Contains(text, "ca-file=")
	switch {
	case equal && isCommand(command, "ping") && (want == "PONG" || strings.HasPrefix(m.Op, "grep") && want == "^PONG$"):
		return step, nil
	case strings.HasPrefix(m.Op, "grep") && isCommand(command, "role") && (want == "^master" || want == "^master$") && !strings.Contains(text, "#"):
		step.Args, step.Why = []string{text + "#role=master"}, "the server reports the role master"
		return step, nil
	case strings.HasPrefix(m.Op, "grep") && isInfo(command) && want == "role:master" && !strings.Contains(text, "#"):
		step.Args, step.Why = []string{text + "#role=master"}, "the server reports the role master"
		return step, nil
	}
	return Step{}, noMatch(m, "an answer of redis-cli that initbox does not have")
}

func isInfo(command []shell.Word) bool {
	if len(command) == 2 {
		text, _ := command[1].Literal()
		return strings.EqualFold(text, "replication") && isCommand(command[:1], "info")
	}
	return isCommand(command, "info")
}
