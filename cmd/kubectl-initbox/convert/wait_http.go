package convert

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/httpclient"
)

const (
	attemptEnds   = "an attempt ends after 10 s"
	headerCounts  = "the status counts, also if the body then breaks off"
	mozillaRoots  = "the certificate is verified against Mozilla's roots, and those in $SSL_CERT_FILE, not against those of the original image"
	publicRoots   = "public CAs are trusted beside the one in the file"
	redirectedTLS = "a redirect to https would be followed without verification, and initbox has that setting for https only"
	getNotHead    = "the request is a GET, as BusyBox's wget sends it; GNU's sends HEAD"
)

// request is an HTTP request that a program makes, and what must come of it.
type request struct {
	url      shell.Word
	settings []string // of the target
	flags    []Flag
	differs  []string
	user     shell.Word // USER:PASSWORD
	verified bool       // an https server's certificate must verify
	reads    bool       // files, such as certificates
}

// step returns the step that waits for the answer.
func (r request) step(why string, call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noProxies(call, c); err != nil {
		return Step{}, err
	}
	text, scheme, err := httpURL(r.url, r.user, c)
	if err != nil {
		return Step{}, err
	}
	if scheme != "https" && slices.Contains(r.settings, "insecure") && !slices.Contains(r.settings, "no-redirect") {
		return Step{}, stop(r.url, redirectedTLS)
	}
	if scheme != "https" {
		r.settings = slices.DeleteFunc(r.settings, func(s string) bool { return s == "insecure" })
		r.verified = false
	}
	if r.verified {
		if slices.ContainsFunc(r.settings, func(s string) bool { return strings.HasPrefix(s, "ca-file=") }) {
			r.differs = append(r.differs, publicRoots)
		} else {
			r.differs = append(r.differs, mozillaRoots)
		}
	}
	if len(r.flags) == 0 {
		r.differs = append(r.differs, attemptEnds)
	}
	if !slices.ContainsFunc(r.settings, func(s string) bool { return strings.HasPrefix(s, "body=") || strings.HasPrefix(s, "json=") }) {
		r.differs = append(r.differs, headerCounts)
	}
	return Step{
		Subcommand: "wait-for-service", Args: []string{text + fragment(r.settings)}, Flags: r.flags,
		Differs: r.differs, Why: why, Writes: r.reads,
	}, nil
}

// noProxies returns an error if a variable names a proxy: which of them counts differs from program to program.
func noProxies(call *shell.Call, c *manifest.Container) error {
	names := []string{}
	for _, s := range call.Set {
		names = append(names, s.Name)
	}
	for _, e := range c.Env {
		names = append(names, e.Name)
	}
	for _, name := range names {
		if set("http_proxy https_proxy all_proxy no_proxy curl_ca_bundle curl_home wgetrc")[strings.ToLower(name)] {
			return &shell.Error{Pos: call.Pos, Word: name, Why: "a variable that changes what " + call.Name + " does"}
		}
	}
	return nil
}

// httpURL returns a URL as it stands in a target, with the login that is given beside it, and its scheme.
func httpURL(w, login shell.Word, c *manifest.Container) (text, scheme string, err error) {
	if scheme := knownPrefix(w, c); len(w) > 1 && strings.HasPrefix(w[1].Text, "://") && (scheme == "http" || scheme == "https") { // $PROTO://
		w = append(shell.Word{{Text: scheme + w[1].Text}}, w[2:]...)
	}
	rest := w
	if len(w) > 0 && w[0].Env != "" && lookup(w[0].Env, c).origin == inConfigMap {
		return "", "", stop(w, "the value of "+w[0].Env+" is in a ConfigMap, and may be any URL")
	}
	if begin := leading(w); begin != "" && !strings.Contains(begin, "://") || begin == "" && !strings.Contains(knownPrefix(w, c), "://") {
		text = "http://" // as curl and wget do
	} else if begin != "" {
		if _, rest, err = cutWord(w, "://"); err != nil {
			return "", "", err
		}
		text, _, _ = strings.Cut(begin, "://")
		text += "://"
	}
	if authority, after, err := cutWord(rest, "@"); err == nil {
		if login != nil || strings.Contains(leading(authority), "/") {
			return "", "", stop(behind(w, len(leading(w))), "an @ in it")
		}
		login, rest = authority, after
	}
	if login != nil {
		user, password, err := cutWord(login, ":")
		if err != nil {
			user, password = login, nil
		}
		at, err := credentials(user, password, c)
		if err != nil {
			return "", "", err
		}
		text += at
	}
	written, sample, err := urlParts(rest, text, c)
	if err != nil {
		return "", "", err
	}
	sample = strings.ReplaceAll(sample, "${env:", "x{")
	if at := strings.LastIndex(sample, "@"); at > 0 { // the references of a login are no part of a URL yet
		before, _, _ := strings.Cut(sample, "://")
		sample = before + "://" + sample[at+1:]
	}
	u, err := url.Parse(sample)
	switch {
	case err != nil, u.Hostname() == "", u.Scheme != "http" && u.Scheme != "https":
		return "", "", stop(w, "not a URL of an HTTP server")
	case otherProtocols[u.Port()]:
		return "", "", stop(w, "not the port of an HTTP server: some versions of curl succeed there all the same")
	case strings.Contains(u.Path+"/", "/./"), strings.Contains(u.Path+"/", "/../"), u.Host != strings.Trim(u.Host, ":"):
		return "", "", stop(w, "a URL that programs write in different ways")
	}
	return text + written, u.Scheme, nil
}

// otherProtocols are ports of servers that do not speak HTTP, with which old versions of curl are content (HTTP/0.9).
var otherProtocols = set("21 22 25 53 389 636 1433 1521 2181 3306 4222 5432 5433 5672 6379 9042 9092 11211 26379 27017")

// knownPrefix returns what is known of the beginning of a word.
func knownPrefix(w shell.Word, c *manifest.Container) string {
	if len(w) == 0 {
		return ""
	}
	text, _ := known(w[:1], c)
	return text
}

// urlParts returns the part of a URL behind its login, and the same with samples instead of variables.
func urlParts(w shell.Word, before string, c *manifest.Container) (text, sample string, err error) {
	const taken = "-._~:/?&=+,;%!*'()" // with letters and digits
	place := place{called: "part of a URL", plain: taken}
	sample = before
	for _, p := range w {
		if p.Env == "" {
			if !place.takes(p.Text) { // a ? without quotes is a pattern only if there is a directory named http:
				return "", "", stop(w, "a character that programs treat differently in URLs")
			}
			text, sample = text+p.Text, sample+p.Text
			continue
		}
		_, authority, scheme := strings.Cut(sample, "://")
		part := place
		switch lookup(p.Env, c).origin {
		case inConfigMap:
			part.any = scheme && !strings.ContainsAny(authority, "/?")
		case inSecret:
			if !scheme {
				return "", "", stop(w, "the variable "+p.Env+" is from a Secret, and may be any URL")
			}
			if !strings.ContainsAny(authority, "/?") {
				part.absent = "unset.invalid"
				if strings.Contains(authority, ":") {
					part.absent = "0"
				}
			} else {
				part.called = "path"
			}
		}
		written, err := part.part(w, p, c)
		if err != nil {
			return "", "", err
		}
		value, ok := known(shell.Word{p}, c)
		if !ok {
			value = "1" // may be a host, a port and a path
		}
		text, sample = text+written, sample+value
	}
	return text, sample, nil
}

// curlOptions are those that say what counts, and others that change nothing here: what is printed, and retries, which
// the loop makes anyway. The names are those of https://curl.se/docs/manpage.html.
const curlOptions = `s silent; S show-error; v verbose; i include; N no-buffer; # progress-bar; no-progress-meter; A user-agent=;
	http1.1; tlsv1.2; compressed; retry=; retry-delay=; retry-max-time=; retry-connrefused; retry-all-errors; connect-timeout=;
	f fail; fail-with-body; L location; k insecure; I head; X request=; H header=; u user=; m max-time=; o output=; w write-out=;
	cacert=; E cert=; key=; url=; http2-prior-knowledge; unix-socket=; noproxy=; G get`

// curlRequest reads curl's options. Without -f, any answer is a success.
func curlRequest(call *shell.Call, c *manifest.Container) (r request, g given, err error) {
	if g, err = optionsOf(curlOptions).read(call.Args); err != nil {
		return r, g, err
	}
	urls := append(g.options["url"], g.args...)
	if len(urls) != 1 {
		return r, g, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with one URL"}
	}
	r.url = urls[0]
	if !g.has("f") && !g.has("fail-with-body") {
		r.settings = append(r.settings, "status=any")
	}
	if !g.has("L") {
		r.settings = append(r.settings, "no-redirect")
	}
	for _, part := range []func(given, *manifest.Container) error{r.curlMethod, r.curlHeaders, r.curlTLS, r.curlConnection} {
		if err := part(g, c); err != nil {
			return r, g, err
		}
	}
	if w := g.get("o"); w != nil {
		if file, ok := w.Literal(); !ok || file != "/dev/null" && file != "-" {
			return r, g, stop(w, "a file that it writes")
		}
	}
	r.flags, err = attempts(g.get("m"))
	return r, g, err
}

func (r *request) curlMethod(g given, _ *manifest.Container) error {
	w := g.get("X")
	method, _ := w.Literal()
	switch {
	case g.has("I") && (w == nil || method == "HEAD"):
		r.settings = append(r.settings, "method=HEAD")
	case w != nil && (method != "GET" || g.has("I")):
		return stop(w, "a request that may change something, or has no answer")
	}
	return nil
}

func (r *request) curlHeaders(g given, c *manifest.Container) error {
	for _, w := range g.options["H"] {
		name, value, ok := strings.Cut(leading(w), ":")
		switch {
		case httpclient.SecretHeader(name), strings.EqualFold(name, "Cookie"):
			return stop(shell.Word{{Text: name}}, "a header that is secret: initbox reads it from a file, see #token-file and #request-header-file")
		case !ok || strings.EqualFold(name, "Host") || strings.TrimSpace(value) == "" && len(w) == 1:
			return stop(shell.Word{{Text: name}}, "a header that initbox does not send in this form")
		}
		text, err := settingPlace.in(w, c)
		if err != nil {
			return err
		}
		r.settings = append(r.settings, "request-header="+text)
	}
	r.user = g.get("u")
	if r.user != nil && !strings.Contains(r.user.String(), ":") {
		return stop(r.user, "a user without a password, which curl asks for")
	}
	return nil
}

func (r *request) curlTLS(g given, c *manifest.Container) error {
	settings, err := tlsSettings(g, "cacert", "k", "", c)
	if err != nil {
		return err
	}
	r.settings = append(r.settings, settings...)
	r.verified = !g.has("k")
	for _, file := range []struct{ option, setting string }{{"E", "cert-file"}, {"key", "key-file"}} {
		if w := g.get(file.option); w != nil {
			text, err := settingPlace.file(w, c)
			if err != nil {
				return err
			}
			r.settings = append(r.settings, file.setting+"="+text)
		}
	}
	r.reads = g.has("cacert") || g.has("E")
	return nil
}

func (r *request) curlConnection(g given, _ *manifest.Container) error {
	if g.has("http2-prior-knowledge") {
		r.settings = append(r.settings, "h2c")
	}
	if w := g.get("noproxy"); w != nil {
		if hosts, _ := w.Literal(); hosts != "*" {
			return stop(w, "hosts without a proxy")
		}
		r.settings = append(r.settings, "no-proxy")
	}
	if w := g.get("unix-socket"); w != nil {
		return stop(w, "a socket")
	}
	return nil
}

// curl is curl in the condition of a loop, also piped into jq -e.
func curl(call *shell.Call, c *manifest.Container) (Step, error) {
	filter := call.Pipe
	alone := *call
	alone.Pipe = nil
	if err := noPipes(&alone); err != nil {
		return Step{}, err
	}
	if s, ok, err := curlTelnet(&alone, c); ok && filter == nil {
		return s, err
	}
	r, g, err := curlRequest(&alone, c)
	if err != nil {
		return Step{}, err
	}
	if filter == nil {
		return r.step(curlWhy(g), call, c)
	}
	setting, err := jqTest(filter)
	if err != nil {
		return Step{}, err
	}
	return r.bodyStep(g, call, c, setting)
}

// bodyStep returns the step for what the body must have.
func (r request) bodyStep(g given, call *shell.Call, c *manifest.Container, setting string) (Step, error) {
	if w := firstOf(g, "w", "i", "I", "o"); w != "" {
		return Step{}, &shell.Error{Pos: call.Pos, Word: "-" + w, Why: "what it prints is not the body alone"}
	}
	r.settings = append(r.settings, setting)
	return r.step("the same answer has what the script looks for", call, c)
}

func firstOf(g given, names ...string) string {
	if found := oneOf(g, names...); len(found) > 0 {
		return found[0]
	}
	return ""
}

func curlWhy(g given) string {
	if g.has("f") || g.has("fail-with-body") {
		return "curl -f succeeds with a status below 400"
	}
	return "curl without -f succeeds with any answer"
}

// curlTelnet is curl telnet://HOST:PORT, which connects and ends when its input does.
func curlTelnet(call *shell.Call, c *manifest.Container) (Step, bool, error) {
	g, err := optionsOf("s silent; v verbose; connect-timeout=").read(call.Args)
	if err != nil || len(g.args) != 1 || !strings.HasPrefix(leading(g.args[0]), "telnet://") {
		return Step{}, false, nil
	}
	host, port, err := cutWord(behind(g.args[0], len("telnet://")), ":")
	if err != nil {
		return Step{}, true, err
	}
	s, err := tcp("tcp", host, port, c)
	return s, true, err
}

// wgetOptions are those that GNU's and BusyBox's wget have in common, and some of GNU's that mean the same here.
//
// https://www.gnu.org/software/wget/manual/wget.html, https://git.busybox.net/busybox/tree/networking/wget.c
const wgetOptions = `q quiet; v verbose; S server-response; spider; O output-document=; T timeout=; t tries=; U user-agent=; header=;
	no-check-certificate; ca-certificate=; nv no-verbose; connect-timeout=; no-proxy; user=; password=; retry-connrefused; waitretry=`

// wgetRequest reads wget's options. A success is a status of 2xx after redirects.
func wgetRequest(call *shell.Call, c *manifest.Container) (r request, g given, err error) {
	words := slices.Clone(call.Args)
	for i, w := range words {
		if text, ok := w.Literal(); ok && text == "-nv" {
			words[i] = shell.Word{{Text: "--nv"}}
		}
	}
	if g, err = optionsOf(wgetOptions).read(words); err != nil {
		return r, g, err
	}
	output, _ := g.get("O").Literal()
	switch {
	case len(g.args) != 1:
		return r, g, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "not called with one URL"}
	case !g.has("spider") && output != "-" && output != "/dev/null" && (g.has("O") || !staysInContainer(call, c)):
		return r, g, &shell.Error{Pos: call.Pos, Word: call.Name, Why: "it writes a file"}
	case g.has("user") != g.has("password"):
		return r, g, &shell.Error{Pos: call.Pos, Word: "--user", Why: "a user without a password"}
	}
	r.url = g.args[0]
	r.settings = []string{"status=200-299"}
	if err := r.curlHeaders(given{options: map[string][]shell.Word{"H": g.options["header"]}}, c); err != nil {
		return r, g, err
	}
	if g.has("user") {
		r.user = slices.Concat(g.get("user"), shell.Word{{Text: ":"}}, g.get("password"))
	}
	if g.has("no-proxy") {
		r.settings = append(r.settings, "no-proxy")
	}
	if err := r.wgetTLS(g, call, c); err != nil {
		return r, g, err
	}
	if g.has("spider") && !bareBusyBox(c) {
		r.differs = append(r.differs, getNotHead)
	}
	r.flags, err = attempts(g.get("T"))
	return r, g, err
}

// staysInContainer reports whether a file in the working directory is in no volume, and so is not found by others.
func staysInContainer(call *shell.Call, c *manifest.Container) bool {
	return call.Dir == nil && (len(c.VolumeMounts) == 0 || (c.WorkingDir == "" || c.WorkingDir == "/") && bareImage(c.Image) && !mounted("/", c))
}

// wgetTLS says whether the certificate is verified: GNU's wget does, BusyBox's does not, and Alpine's does in some
// versions.
func (r *request) wgetTLS(g given, call *shell.Call, c *manifest.Container) error {
	text, _ := known(r.url, c)
	text = cmp.Or(text, leading(r.url))
	plain := strings.HasPrefix(text, "http:") || !strings.Contains(text, "://")
	switch {
	case g.has("no-check-certificate"), bareBusyBox(c) && strings.Contains(c.Image, "busybox") && !plain:
		r.settings = append(r.settings, "insecure")
		return nil
	case g.has("ca-certificate"):
		r.reads = true
	case bareImage(c.Image) && !bareBusyBox(c) && !strings.Contains(c.Image, "alpine"): // Debian's and Ubuntu's is GNU's
	case plain:
		r.differs = append(r.differs, "after a redirect to https, the certificate is verified")
	default:
		return &shell.Error{Pos: call.Pos, Word: "https", Why: "GNU's wget verifies certificates, and BusyBox's does not: which one it is, is not known"}
	}
	settings, err := tlsSettings(g, "ca-certificate", "", "", c)
	r.settings, r.verified = append(r.settings, settings...), true
	return err
}

// bareBusyBox reports whether the image certainly has BusyBox's programs.
func bareBusyBox(c *manifest.Container) bool {
	return bareImage(c.Image) && (strings.Contains(c.Image, "busybox") || strings.Contains(c.Image, "alpine")) &&
		!slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(text string) bool { return strings.Contains(text, "apk") })
}

// wget is wget in the condition of a loop.
func wget(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	r, _, err := wgetRequest(call, c)
	if err != nil {
		return Step{}, err
	}
	return r.step("wget succeeds with a status of 2xx, after redirects", call, c)
}
