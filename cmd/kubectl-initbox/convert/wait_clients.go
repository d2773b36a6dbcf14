package convert

import (
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// The clients of brokers and databases whose status says whether the server is there, by the names of their programs.
var (
	kafkaTopics = client{"bootstrap-server=; list; describe; topic=", func(g given, call *shell.Call, c *manifest.Container) (Step, error) {
		switch {
		case len(g.args) > 0, g.has("list") == g.has("describe"), g.has("list") && g.has("topic"), len(g.options["topic"]) > 1:
			return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with --list, or with --describe and a topic"}
		}
		return kafkaBrokers(g.get("bootstrap-server"), g.get("topic"), call, c)
	}}.probe()
	kafkaVersions = client{"bootstrap-server=", func(g given, call *shell.Call, c *manifest.Container) (Step, error) {
		return kafkaBrokers(g.get("bootstrap-server"), nil, call, c)
	}}.probe()
	kcat = client{"b=; L; q; J", func(g given, call *shell.Call, c *manifest.Container) (Step, error) {
		if !g.has("L") || len(g.args) > 0 {
			return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with -L alone"}
		}
		return kafkaBrokers(g.get("b"), nil, call, c)
	}}.probe()
	mongosh = client{"host=; port=; quiet; eval=; u username=; p password=; authenticationDatabase=; norc; nodb; tls; ssl", mongo}.probe()
	cqlsh   = client{"u username=; p password=; k keyspace=; e execute=; connect-timeout=; request-timeout=; no-color", cql}.probe()
	etcdctl = client{`endpoints=; cacert=; cert=; key=; insecure-skip-tls-verify; user=; password=; w write-out=;
		dial-timeout=; command-timeout=`, etcdHealth}.probe()
)

// kafkaBrokers returns the step that waits for one of the brokers, and for a topic.
//
// https://kafka.apache.org/documentation/#basic_ops, https://github.com/edenhill/kcat
func kafkaBrokers(servers, topic shell.Word, call *shell.Call, c *manifest.Container) (Step, error) {
	if servers == nil {
		return Step{}, noServer(call)
	}
	text, _, err := urlParts(servers, "kafka://", c)
	if err != nil {
		return Step{}, err
	}
	s := wait("a broker answers", "kafka://"+text)
	s.Differs = []string{attemptEnds, "a broker without a controller of the cluster is not ready"}
	if topic != nil {
		name, err := namePlace.in(topic, c)
		if err != nil {
			return Step{}, err
		}
		s.Args[0], s.Why = s.Args[0]+"/"+name, "the topic exists"
		s.Differs = append(s.Differs, "each partition of the topic must have a leader")
	}
	return s, nil
}

// harmlessMongo are commands that succeed when the server answers.
var harmlessMongo = lazy.Regexp(`^\s*(print\()?db\.(adminCommand|runCommand)\(\s*(['"]ping['"]|\{\s*['"]?ping['"]?\s*:\s*1\s*\})\s*\)(\.ok)?\)?\s*;?\s*$|` +
	`^\s*db\.(hello|isMaster)\(\)(\.\w+)?\s*;?\s*$|^\s*(quit|exit)(\(\))?\s*;?\s*$`)

// mongo is mongosh, or mongo before it: https://www.mongodb.com/docs/mongodb-shell/reference/options. The commands are
// answered without a login, too, and by a server of any role.
func mongo(g given, call *shell.Call, c *manifest.Container) (Step, error) {
	eval := g.get("eval")
	switch {
	case eval == nil || len(g.options["eval"]) > 1 || len(g.args) > 1 || g.has("nodb"):
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with one --eval"}
	case g.has("tls") || g.has("ssl"):
		return Step{}, stop(shell.Word{{Text: "--tls"}}, "what it trusts depends on the image")
	}
	if text, ok := eval.Literal(); !ok || !harmlessMongo().MatchString(text) {
		return Step{}, stop(eval, "a command whose errors count and whose result does not; ping and hello are understood")
	}
	if len(g.args) == 1 {
		if g.has("host") || g.has("u") {
			return Step{}, stop(g.args[0], "a URL or a database together with other options")
		}
		s, err := loginByURL("mongodb")(g.args[0], g, c)
		if err == nil {
			s.Args[0] += "#role=any"
		}
		return s, err
	}
	s := server{host: g.get("host"), port: g.get("port"), user: g.get("u"), password: g.get("p")}
	if s.host == nil {
		return Step{}, noServer(call)
	}
	if host, port, err := cutWord(s.host, ":"); err == nil {
		s.host, s.port = host, port
	}
	text, err := s.target("mongodb", c)
	if err != nil {
		return Step{}, err
	}
	if w := g.get("authenticationDatabase"); w != nil {
		name, err := namePlace.in(w, c)
		if err != nil {
			return Step{}, err
		}
		text += "/?authSource=" + name
	}
	step := wait("the server answers", text+"#role=any")
	if step.Differs = []string{attemptEnds}; s.user != nil {
		step.Why = "the same login"
	}
	return step, nil
}

// harmlessCQL are statements that succeed when the login does.
var harmlessCQL = lazy.Regexp(`(?i)^\s*(desc(ribe)?\s+(keyspaces|cluster)|show\s+(version|host)|exit|quit|select\s+[\w(), ]+\s+from\s+system\.(local|peers))\s*;?\s*$`)

// cql is cqlsh: https://docs.datastax.com/en/cql/cassandra-5.0/cqlsh/use-cql-shell.html
func cql(g given, call *shell.Call, c *manifest.Container) (Step, error) {
	if err := clientVariables(call, c, "CQLSH_", ""); err != nil {
		return Step{}, err
	}
	s := server{user: g.get("u"), password: g.get("p"), database: g.get("k")}
	switch {
	case len(g.args) == 0:
		return Step{}, noServer(call)
	case len(g.args) > 2 || len(g.options["e"]) != 1:
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with a host and one -e"}
	case len(g.args) == 2:
		s.port = g.args[1]
	}
	s.host = g.args[0]
	if text, ok := g.get("e").Literal(); !ok || !harmlessCQL().MatchString(text) {
		return Step{}, stop(g.get("e"), "a statement whose errors count and whose result does not; describe keyspaces is understood")
	}
	text, err := s.target("cassandra", c)
	step := wait("a node starts a session", text)
	step.Differs = []string{attemptEnds}
	return step, err
}

// etcdHealth is etcdctl endpoint health, in which all endpoints must be healthy:
// https://etcd.io/docs/v3.6/tutorials/how-to-check-cluster-status
func etcdHealth(g given, call *shell.Call, c *manifest.Container) (Step, error) {
	if err := clientVariables(call, c, "ETCDCTL_", "ETCDCTL_API"); err != nil {
		return Step{}, err
	}
	var words []string
	for _, w := range g.args {
		words = append(words, w.String())
	}
	switch {
	case strings.Join(words, " ") != "endpoint health":
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with endpoint health"}
	case g.get("endpoints") == nil:
		return Step{}, noServer(call)
	case g.has("user") || g.has("password"):
		return Step{}, stop(shell.Word{{Text: "--user"}}, "a login")
	}
	settings, err := tlsSettings(g, "cacert", "insecure-skip-tls-verify", "", c)
	if err != nil {
		return Step{}, err
	}
	for _, name := range []string{"cert", "key"} {
		if w := g.get(name); w != nil {
			file, err := settingPlace.file(w, c)
			if err != nil {
				return Step{}, err
			}
			settings = append(settings, name+"-file="+file)
		}
	}
	s := wait("each member is healthy")
	s.Differs = []string{attemptEnds}
	for rest := g.get("endpoints"); rest != nil; {
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
		host, port, err := cutWord(endpoint, ":")
		if err != nil {
			return Step{}, err
		}
		text, err := hostPort(host, port, c)
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
