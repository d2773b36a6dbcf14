package convert

import (
	"cmp"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// clients is the table of client programs, by their names.
var clients = map[string]client{
	"cqlsh": {
		options:   "u username=; p password=; k keyspace=; e execute=; connect-timeout=; request-timeout=; no-color",
		server:    "- - u p k",
		variables: "CQLSH_",
		status:    cql,
	},
	"etcdctl": {
		options: `endpoints=; cacert=; cert=; key=; insecure-skip-tls-verify; user=; password=; w write-out=; dial-timeout=;
			command-timeout=`,
		variables: "ETCDCTL_ ETCDCTL_API",
		status:    etcdHealth,
	},
	"getent": {status: getent},
	"grpc_health_probe grpc-health-probe": {
		options: `addr=; service=; connect-timeout=; rpc-timeout=; tls; tls-no-verify; tls-ca-cert=; tls-server-name=;
			user-agent=; v`,
		long:   "-",
		status: grpcHealth,
	},
	"host":          {options: "4; 6; W=; t=", status: host},
	"kafkacat kcat": {options: "b=; L; q; J", status: kcat},
	"kafka-broker-api-versions kafka-broker-api-versions.sh": {
		options: "bootstrap-server=",
		status:  func(a *asked) (Step, error) { return a.brokers(a.get("bootstrap-server"), nil) },
	},
	"kafka-topics kafka-topics.sh": {options: "bootstrap-server=; list; describe; topic=", status: kafkaTopics},
	"mariadb mysql": {
		options: mysqlLogin + `s silent; e execute=; D database=; N skip-column-names; B batch; v verbose; no-defaults;
			default-character-set=`,
		server: "h P u p/MYSQL_PWD D",
		status: mysql,
		output: mysqlMatch,
	},
	"mariadb-admin mysqladmin": {
		options: mysqlLogin + "s silent; v verbose; no-defaults; default-character-set=",
		server:  "h P u p/MYSQL_PWD",
		status:  mysqladmin,
	},
	"mongo mongosh": {
		options: "host=; port=; quiet; eval=; u username=; p password=; authenticationDatabase=; norc; nodb; tls; ssl",
		server:  "host port u p",
		status:  mongo,
	},
	"nc ncat netcat": {options: "z; v; n; w=; 4; 6", status: netcat},
	"nslookup":       {options: "type query querytype t q=; timeout=; retry=; debug; nodebug", long: "-", status: nslookup},
	"pg_isready": {
		options:   "h host=; p port=; U username=; d dbname=; t timeout=; q quiet",
		server:    "h/PGHOST p/PGPORT - - d",
		variables: "PG PGHOST PGPORT PGDATABASE PGUSER PGPASSWORD PGCONNECT_TIMEOUT PGDATA",
		status:    pgIsReady,
	},
	"psql": {
		options: `h host=; p port=; U username=; d dbname=; c command=; l list; t tuples-only; A no-align; q quiet; w no-password;
			X no-psqlrc; b echo-errors; v set variable=; F field-separator=; o output=; P pset=; 1 single-transaction; n no-readline`,
		server:    "h/PGHOST p/PGPORT U/PGUSER -/PGPASSWORD -/PGDATABASE",
		variables: "PG PGHOST PGPORT PGDATABASE PGUSER PGPASSWORD PGSSLMODE PGSSLROOTCERT PGCONNECT_TIMEOUT PGDATA",
		status:    psql,
		output:    psqlMatch,
	},
	"redis-cli valkey-cli": {
		options:   "h=; p=; a pass=; user=; n=; no-auth-warning; raw; no-raw; e; t=; tls; cacert=; insecure; cert=; key=; sni=",
		server:    "h p user a/REDISCLI_AUTH n",
		variables: "REDISCLI_ REDISCLI_AUTH",
		status:    redisCLI,
		output:    redisMatch,
	},
}

// client is a program that asks one server, depending on its options and arguments alone: it reads no input.
type client struct {
	options string // as for optionsOf
	long    string // what stands in front of a long option; "" is --
	// server has the options of host, port, user, password and database, each with the variable that counts without it.
	// A password that the container has in the variable needs no place in the target: initbox reads it, too.
	server    string
	variables string // the prefix of the variables that it reads, and those of them that change nothing, or are in server
	status    func(a *asked) (Step, error)
	output    func(a *asked, m *shell.Match) (Step, error) // nil: what it prints is not read
}

// asked is a call of a client.
type asked struct {
	given
	server
	call *shell.Call
	c    *manifest.Container
}

func (p client) read(call *shell.Call, c *manifest.Container) (*asked, error) {
	call = withoutEmptyInput(call)
	if err := noPipes(call); err != nil {
		return nil, err
	}
	g, err := optionsOf(p.options).readDashes(call.Args, cmp.Or(p.long, "--"))
	if err != nil {
		return nil, err
	}
	a := &asked{given: g, call: call, c: c}
	if prefix, known, _ := strings.Cut(p.variables, " "); prefix != "" {
		if err := a.noVariables(prefix, known); err != nil {
			return nil, err
		}
	}
	place := []*shell.Word{&a.host, &a.port, &a.user, &a.password, &a.database}
	for i, from := range strings.Fields(p.server) {
		option, variable, _ := strings.Cut(from, "/")
		*place[i] = a.get(option)
		if *place[i] == nil && (place[i] != &a.password || setFor(call, variable)) {
			*place[i] = variableWord(variable, call, c)
		}
	}
	return a, nil
}

func (p client) probe(call *shell.Call, c *manifest.Container) (Step, error) {
	a, err := p.read(call, c)
	if err != nil {
		return Step{}, err
	}
	return p.status(a)
}

func (p client) compare(m *shell.Match, c *manifest.Container) (Step, error) {
	a, err := p.read(m.Call, c)
	if err != nil {
		return Step{}, err
	}
	return p.output(a, m)
}

// withClients adds the clients that do something to a table of waits.
func withClients[T any](table map[string]T, does func(client) (T, bool)) map[string]T {
	for names, p := range clients {
		for _, name := range strings.Fields(names) {
			if f, ok := does(p); ok {
				table[name] = f
			}
		}
	}
	return table
}

// server is the server that a client connects to, and as whom. What is nil was not given.
type server struct{ host, port, user, password, database shell.Word }

// target returns the target without settings: SCHEME://USER:PASSWORD@HOST:PORT/DATABASE.
func (a *asked) target(scheme string) (string, error) {
	if a.host == nil || strings.HasPrefix(leading(a.host), "/") {
		return "", a.noServer()
	}
	login, err := credentials(a.user, a.password, a.c)
	if err != nil {
		return "", err
	}
	where, err := hostPort(a.host, a.port, a.c)
	if err != nil || a.database == nil {
		return scheme + "://" + login + where, err
	}
	name, err := namePlace.in(a.database, a.c)
	return scheme + "://" + login + where + "/" + name, err
}

// answers returns the step that waits for the server.
func (a *asked) answers(why, scheme string) (Step, error) {
	text, err := a.target(scheme)
	return attempted(why, text), err
}

// attempted returns a step whose attempts end, as those of the client may not.
func attempted(why string, targets ...string) Step {
	s := wait(why, targets...)
	s.Differs = []string{attemptEnds}
	return s
}

// refuse returns the error of a call that is not the one that is known.
func (a *asked) refuse(why string) error {
	return &shell.Error{Pos: a.call.Pos, Word: a.call.Name, Why: why}
}

func (a *asked) noServer() error {
	return a.refuse("without a host it uses a socket or a default of the image")
}

// noVariables returns an error for a variable, of the container or in front of the call, that a client reads and
// initbox would read differently or not at all. Those in known are translated.
func (a *asked) noVariables(prefix, known string) error {
	names := []string{}
	for _, s := range a.call.Set {
		names = append(names, s.Name)
	}
	for _, e := range a.c.Env {
		names = append(names, e.Name)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !set(known)[name] {
			return &shell.Error{Pos: a.call.Pos, Word: name, Why: "a variable that changes what " + a.call.Name + " does"}
		}
	}
	return nil
}

// setFor reports whether a variable is set in front of the call, so that initbox will not find it in its environment.
func setFor(call *shell.Call, name string) bool {
	return slices.ContainsFunc(call.Set, func(s shell.Assignment) bool { return s.Name == name })
}

// kafkaTopics is kafka-topics --list, or --describe of a topic.
func kafkaTopics(a *asked) (Step, error) {
	if len(a.args) > 0 || a.has("list") == a.has("describe") || a.has("list") && a.has("topic") || len(a.options["topic"]) > 1 {
		return Step{}, a.refuse("not called with --list, or with --describe and a topic")
	}
	return a.brokers(a.get("bootstrap-server"), a.get("topic"))
}

func kcat(a *asked) (Step, error) {
	if !a.has("L") || len(a.args) > 0 {
		return Step{}, a.refuse("not called with -L alone")
	}
	return a.brokers(a.get("b"), nil)
}

// brokers returns the step that waits for one of the brokers, and for a topic.
//
// https://kafka.apache.org/documentation/#basic_ops, https://github.com/edenhill/kcat
func (a *asked) brokers(servers, topic shell.Word) (Step, error) {
	if servers == nil {
		return Step{}, a.noServer()
	}
	text, _, err := urlParts(servers, "kafka://", a.c)
	s := attempted("a broker answers", "kafka://"+text)
	s.differs("a broker without a controller of the cluster is not ready")
	if err != nil || topic == nil {
		return s, err
	}
	name, err := namePlace.in(topic, a.c)
	s.Args[0], s.Why = s.Args[0]+"/"+name, "the topic exists"
	s.differs("each partition of the topic must have a leader")
	return s, err
}

// harmlessMongo are commands that succeed when the server answers.
var harmlessMongo = lazy.Regexp(`^\s*(print\()?db\.(adminCommand|runCommand)\(\s*(['"]ping['"]|\{\s*['"]?ping['"]?\s*:\s*1\s*\})\s*\)(\.ok)?\)?\s*;?\s*$|` +
	`^\s*db\.(hello|isMaster)\(\)(\.\w+)?\s*;?\s*$|^\s*(quit|exit)(\(\))?\s*;?\s*$`)

// mongo is mongosh, or mongo before it: https://www.mongodb.com/docs/mongodb-shell/reference/options. The commands are
// answered without a login, too, and by a server of any role.
func mongo(a *asked) (Step, error) {
	eval := a.get("eval")
	switch {
	case eval == nil || len(a.options["eval"]) > 1 || len(a.args) > 1 || a.has("nodb"):
		return Step{}, a.refuse("not called with one --eval")
	case a.has("tls") || a.has("ssl"):
		return Step{}, stop(shell.Word{{Text: "--tls"}}, "what it trusts depends on the image")
	}
	if text, ok := eval.Literal(); !ok || !harmlessMongo().MatchString(text) {
		return Step{}, stop(eval, "a command whose errors count and whose result does not; ping and hello are understood")
	}
	if len(a.args) == 1 {
		if a.has("host") || a.has("u") {
			return Step{}, stop(a.args[0], "a URL or a database together with other options")
		}
		s, err := loginByURL("mongodb")(a.args[0], a.given, a.c)
		if err == nil {
			s.Args[0] += "#role=any"
		}
		return s, err
	}
	if host, port, err := cutWord(a.host, ":"); err == nil {
		a.host, a.port = host, port
	}
	s, err := a.answers("the server answers", "mongodb")
	if w := a.get("authenticationDatabase"); w != nil && err == nil {
		var name string
		name, err = namePlace.in(w, a.c)
		s.Args[0] += "/?authSource=" + name
	}
	s.Args[0] += "#role=any"
	return s, err
}

// harmlessCQL are statements that succeed when the login does.
var harmlessCQL = lazy.Regexp(`(?i)^\s*(desc(ribe)?\s+(keyspaces|cluster)|show\s+(version|host)|exit|quit|select\s+[\w(), ]+\s+from\s+system\.(local|peers))\s*;?\s*$`)

// cql is cqlsh: https://docs.datastax.com/en/cql/cassandra-5.0/cqlsh/use-cql-shell.html
func cql(a *asked) (Step, error) {
	switch {
	case len(a.args) == 0:
		return Step{}, a.noServer()
	case len(a.args) > 2 || len(a.options["e"]) != 1:
		return Step{}, a.refuse("not called with a host and one -e")
	case len(a.args) == 2:
		a.port = a.args[1]
	}
	if text, ok := a.get("e").Literal(); !ok || !harmlessCQL().MatchString(text) {
		return Step{}, stop(a.get("e"), "a statement whose errors count and whose result does not; describe keyspaces is understood")
	}
	a.host = a.args[0]
	return a.answers("a node starts a session", "cassandra")
}

// etcdHealth is etcdctl endpoint health, in which all endpoints must be healthy:
// https://etcd.io/docs/v3.6/tutorials/how-to-check-cluster-status
func etcdHealth(a *asked) (Step, error) {
	switch {
	case !a.called("endpoint", "health"):
		return Step{}, a.refuse("not called with endpoint health")
	case a.get("endpoints") == nil:
		return Step{}, a.noServer()
	case a.has("user") || a.has("password"):
		return Step{}, stop(shell.Word{{Text: "--user"}}, "a login")
	}
	settings, err := tlsSettings(a.given, "cacert", "insecure-skip-tls-verify", "", a.c)
	if err != nil {
		return Step{}, err
	}
	for _, name := range []string{"cert", "key"} {
		if w := a.get(name); w != nil {
			file, err := settingPlace.file(w, a.c)
			if err != nil {
				return Step{}, err
			}
			settings = append(settings, name+"-file="+file)
		}
	}
	s := attempted("each member is healthy")
	for rest := a.get("endpoints"); rest != nil; {
		endpoint, more, err := cutWord(rest, ",")
		if err != nil {
			endpoint, more = rest, nil
		}
		rest = more
		scheme, _, found := strings.Cut(leading(endpoint), "://")
		switch {
		case !found:
			scheme = "http"
		case scheme == "http", scheme == "https":
			endpoint = behind(endpoint, len(scheme)+len("://"))
		default:
			return Step{}, stop(endpoint, "not an endpoint with http or https")
		}
		text, err := addressIn(endpoint, a.c)
		if err != nil {
			return Step{}, err
		}
		if text = "etcd://" + text; scheme == "https" {
			text += fragment(append([]string{"tls"}, settings...))
			s.Writes = s.Writes || strings.Contains(text, "-file=")
		}
		s.Args = append(s.Args, text)
	}
	return s, nil
}

// called reports whether the arguments are exactly these words, in upper or lower case.
func (g given) called(words ...string) bool {
	return slices.EqualFunc(g.args, words, func(w shell.Word, word string) bool {
		text, ok := w.Literal()
		return ok && strings.EqualFold(text, word)
	})
}
