package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A language is how templates say the same thing: NAME is a variable, COUNT the
// number of rounds of a loop, and LAST the number of the last one.
type language struct {
	variable         string
	loop, index, end string // "" where there are no loops
	suffix           string // of file names; results do not have it
}

var (
	initboxGo    = language{"{{ .Env.NAME }}", "{{ range until COUNT }}", "{{ . }}", "{{ end }}", ".tmpl"}
	initboxJinja = language{"{{ Env.NAME }}", "{% for i in range(COUNT) %}", "{{ i }}", "{% endfor %}", ".j2"}
	initboxSubst = language{variable: "${NAME}", suffix: ".tmpl"}
	gomplateGo   = language{"{{ .Env.NAME }}", "{{ range math.Seq 0 LAST }}", "{{ . }}", "{{ end }}", ""}
	dockerizeGo  = language{"{{ .Env.NAME }}", "{{ range loop 0 COUNT }}", "{{ . }}", "{{ end }}", ""}
	confdGo      = language{`{{ getenv "NAME" }}`, "{{ range seq 0 LAST }}", "{{ . }}", "{{ end }}", ""}
	jinja2       = language{"{{ Env.NAME }}", "{% for i in range(COUNT) %}", "{{ i }}", "{% endfor %}", ""}
	shellSubst   = language{variable: "${NAME}"}
)

// A renderer is one way to make files of templates, as a user of the tool would do it. {in} and {out} are two files, or
// two directories with the same names in them; {confdir} and {script} are what prepare has written.
type renderer struct {
	name, tool string
	language   language
	env        []string

	file      []string
	piped     bool     // the file comes from stdin, the result goes to stdout
	tree      []string // nil: only single files
	directory []string // added to tree for each directory of {in}
	mkdir     bool     // the directories of {out} have to be there
	most      int      // files, where more would take too long
	again     bool     // the results are there already
	treeOnly  bool     // what single files would tell is in another row
	prepare   func(w *workload) error
}

// renderers lists them as the report does. envsubst does not render trees, so its users write a loop.
var renderers = []renderer{
	{name: ours, tool: ours, language: initboxGo, file: renderInOut, tree: renderInOut},
	{name: "initbox, nothing changes", tool: ours, language: initboxGo, file: renderInOut, tree: renderInOut, again: true},
	{name: oursOneCore, tool: ours, language: initboxGo, env: []string{"GOMAXPROCS=1"}, file: renderInOut, tree: renderInOut, treeOnly: true},
	{name: oursTwoCores, tool: ours, language: initboxGo, env: []string{"GOMAXPROCS=2"}, file: renderInOut, tree: renderInOut, treeOnly: true},
	{name: oursJinja, tool: ours, language: initboxJinja, file: renderInOut, tree: renderInOut},
	{name: oursEnvsubst, tool: ours, language: initboxSubst,
		file: append(renderInOut, "--engine", "envsubst"), tree: append(renderInOut, "--engine", "envsubst")},
	{name: theirs, tool: "gomplate", language: gomplateGo,
		file: []string{"{tool}", "-f", "{in}", "-o", "{out}"},
		tree: []string{"{tool}", "--input-dir", "{in}", "--output-dir", "{out}"}},
	{name: "dockerize", tool: "dockerize", language: dockerizeGo, mkdir: true,
		file: []string{"{tool}", "-template", "{in}:{out}"},
		tree: []string{"{tool}"}, directory: []string{"-template", "{in}:{out}"}},
	{name: "confd", tool: "confd", language: confdGo, mkdir: true, prepare: writeConfd, file: confdOnce, tree: confdOnce},
	{name: "jinja2", tool: "jinja2", language: jinja2, prepare: writeScript,
		file: []string{"{tool}", "{script}", "{in}", "{out}"}, tree: []string{"{tool}", "{script}", "{in}", "{out}"}},
	{name: "envsubst", tool: "envsubst", language: shellSubst, mkdir: true, most: 1000,
		file: []string{"{tool}"}, piped: true, tree: substLoop},
	{name: "envsubst of a8m", tool: "envsubst-a8m", language: shellSubst, mkdir: true, most: 1000,
		file: []string{"{tool}", "-i", "{in}", "-o", "{out}"}, tree: substLoop},
}

const (
	oursOneCore  = "initbox, GOMAXPROCS=1"
	oursJinja    = "initbox, Jinja"
	oursEnvsubst = "initbox, envsubst"
	oursTwoCores = "initbox, GOMAXPROCS=2"
	theirs       = "gomplate" // which a target names
)

var (
	renderInOut = []string{"{tool}", "render", "{in}:{out}"}
	confdOnce   = []string{"{tool}", "-onetime", "-backend", "env", "-confdir", "{confdir}"}
	substLoop   = []string{"/bin/sh", "-c", `cd {in} && for f in */*; do {tool} <"$f" >{out}/"$f" || exit; done`}
)

// script renders a file, or all files of a directory in one process.
const script = `import os, sys
import jinja2

source, result = sys.argv[1:]
loader = jinja2.FileSystemLoader(source if os.path.isdir(source) else os.path.dirname(source))
env = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)

def render(name, to):
    with open(to, "w") as f:
        f.write(env.get_template(name).render(Env=os.environ))

if os.path.isdir(source):
    for name in env.list_templates():
        to = os.path.join(result, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        render(name, to)
else:
    render(os.path.basename(source), result)
`

func writeScript(w *workload) error {
	return os.WriteFile(w.vars["script"], []byte(script), 0o644)
}

// writeConfd writes the file that confd wants for each template.
func writeConfd(w *workload) error {
	for _, dir := range []string{"conf.d", "templates"} {
		if err := os.MkdirAll(filepath.Join(w.vars["confdir"], dir), 0o755); err != nil {
			return err
		}
	}
	for i, name := range w.names {
		in, out := filepath.Join(w.in, name), filepath.Join(w.out, name)
		relative, err := filepath.Rel(filepath.Join(w.vars["confdir"], "templates"), in)
		if err != nil {
			return err
		}
		resource := fmt.Sprintf("[template]\nsrc = %q\ndest = %q\nmode = \"0644\"\nkeys = []\n", relative, out)
		if err := os.WriteFile(filepath.Join(w.vars["confdir"], "conf.d", fmt.Sprintf("%d.toml", i)), []byte(resource), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// renderVariables are all that templates see, which is what every tool can do.
var renderVariables = map[string]string{
	"APP_NAME": "shop", "APP_HOST": "shop.example.org", "APP_PORT": "8080", "APP_LEVEL": "info",
	"APP_DATABASE": "db.shop.svc.cluster.local:5432", "APP_CACHE": "cache.shop.svc.cluster.local:6379",
}

// smallText is a file of 1 kB, in which <NAME> is a variable.
const smallText = `# <APP_NAME>, file NUMBER
server {
    listen <APP_PORT>;
    server_name <APP_HOST>;
    access_log /var/log/<APP_NAME>/access.log;
    error_log /var/log/<APP_NAME>/error.log <APP_LEVEL>;
    gzip on;
    gzip_types text/plain text/css application/json application/javascript text/xml;
    client_max_body_size 16m;
    keepalive_timeout 65s;
    location / {
        proxy_pass http://<APP_HOST>:<APP_PORT>;
        proxy_connect_timeout 5s;
        proxy_read_timeout 60s;
        proxy_next_upstream error timeout http_502 http_503;
    }
    location /healthz {
        return 200;
    }
    error_page 500 502 503 504 /50x.html;
    location = /50x.html {
        root /usr/share/nginx/html;
    }
}
database {
    address <APP_DATABASE>;
    pool 16;
    timeout 5s;
    statement_timeout 30s;
    prefer simple_protocol;
}
cache {
    address <APP_CACHE>;
    prefix <APP_NAME>:;
    ttl 3600s;
}
log {
    level <APP_LEVEL>;
    format json;
    fields time level message trace span user request duration;
    sample 1 of 1;
}
`

var mark = regexp.MustCompile(`<([A-Z_]+)>`)

// small returns the file with what stands for a variable in it.
func small(variable func(name string) string) string {
	return mark.ReplaceAllStringFunc(smallText, func(m string) string { return variable(strings.Trim(m, "<>")) })
}

var smallResult = small(func(name string) string { return renderVariables[name] })

func numbered(text string, n int) string { return strings.Replace(text, "NUMBER", strconv.Itoa(n), 1) }

// lineText is what a loop writes, with its index: half a kilobyte.
var lineText = "listener INDEX: " + strings.Repeat("half a kilobyte of text, ", 19) + "and no more\n"

// template returns the template of a case, the same for all files except for their NUMBER.
func (l language) template(c rendering) string {
	if c.lines == 0 {
		return small(func(name string) string { return strings.Replace(l.variable, "NAME", name, 1) })
	}
	fill := strings.NewReplacer("COUNT", strconv.Itoa(c.lines), "LAST", strconv.Itoa(c.lines-1), "INDEX", l.index)
	return fill.Replace(l.loop + lineText + l.end)
}

// result returns what a template gives in any language, likewise.
func (c rendering) result() string {
	if c.lines == 0 {
		return smallResult
	}
	before, after, _ := strings.Cut(lineText, "INDEX")
	var s strings.Builder
	for i := range c.lines {
		s.WriteString(before + strconv.Itoa(i) + after)
	}
	return s.String()
}
