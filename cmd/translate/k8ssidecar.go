package translate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/words"
)

// SidecarPort is where k8s-sidecar listens, unless its variables say otherwise.
const SidecarPort = "8080"

// sidecarVariable is a variable of k8s-sidecar that has no flag of kube-get.
type sidecarVariable struct {
	name    string
	unused  string // why it has no effect
	refused string // why it cannot be translated
	hint    string
	but     []string // values that are as good as none
}

var sidecarVariables = []sidecarVariable{
	{name: "SCRIPT", refused: "no programs are run", hint: "use REQ_URL, or have the application watch the folder"},
	{name: "SKIP_TLS_VERIFY", refused: "the API server's certificate is always verified", hint: "the kubelet mounts the CA; elsewhere put it into the kubeconfig file", but: []string{"false"}},
	{name: "ENABLE_5XX", refused: "an error of a server is not the content of a file", but: []string{"false"}},
	{name: "LOG_CONFIG", refused: "it is a configuration of Python", hint: "use --log-format and --log-level"},
	{name: "LOG_LEVEL", unused: "use --log-level", but: []string{"INFO"}},
	{name: "LOG_FORMAT", unused: "use --log-format json", but: []string{"LOGFMT"}},
	{name: "LOG_TZ", unused: "the log is in UTC", but: []string{"UTC"}},
	{name: "REQ_BASIC_AUTH_ENCODING", unused: "user and password are sent as they are, usually in UTF-8", but: []string{"utf-8", "utf8", "ascii"}},
	{name: "REQ_RETRY_TOTAL", unused: sidecarRetries}, {name: "REQ_RETRY_CONNECT", unused: sidecarRetries},
	{name: "REQ_RETRY_READ", unused: sidecarRetries}, {name: "REQ_RETRY_BACKOFF_FACTOR", unused: sidecarRetries},
	{name: "ERROR_THROTTLE_SLEEP", unused: "errors of the API server are always followed by a pause"},
	{name: "WATCH_SERVER_TIMEOUT", unused: sidecarSilence}, {name: "WATCH_CLIENT_TIMEOUT", unused: sidecarSilence},
	{name: "IGNORE_ALREADY_PROCESSED", unused: "files that are right are never written again", but: []string{"true", "false"}},
}

const (
	sidecarRetries = "the request is repeated until it succeeds"
	sidecarSilence = "a watch that is silent is always noticed within 30 seconds"
)

// K8sSidecar translates the arguments and variables of kiwigrid/k8s-sidecar into flags, targets and DST of kube-get.
//
// https://github.com/kiwigrid/k8s-sidecar
func K8sSidecar(args []string, env Environment) (Line, error) {
	s := &k8sSidecar{env: env}
	if err := s.options(args); err != nil {
		return Line{}, err
	}
	for _, v := range sidecarVariables {
		value := env.get(v.name)
		switch {
		case value == "" || slices.ContainsFunc(v.but, func(as string) bool { return strings.EqualFold(as, value) }):
		case v.unused != "":
			s.line.Warnings = append(s.line.Warnings, "k8s-sidecar's "+v.name+": "+v.unused)
		case v.hint != "":
			return Line{}, failure.WithHint(fmt.Errorf("%s: %s", v.name, v.refused), v.hint)
		default:
			return Line{}, fmt.Errorf("%s: %s", v.name, v.refused)
		}
	}
	for _, step := range []func() error{s.objects, s.files, s.webhook, s.method} {
		if err := step(); err != nil {
			return Line{}, err
		}
	}
	return s.line, nil
}

// k8sSidecar is a translation in progress.
type k8sSidecar struct {
	env                Environment
	line               Line
	userFile, passFile string
}

func (s *k8sSidecar) add(name, value string) { s.line.Flags = append(s.line.Flags, Flag{name, value}) }

// on returns whether a variable is true.
func (s *k8sSidecar) on(variable string) bool { return strings.EqualFold(s.env.get(variable), "true") }

// options reads the arguments.
func (s *k8sSidecar) options(args []string) error {
	s.userFile, s.passFile = s.env.get("REQ_USERNAME_FILE"), s.env.get("REQ_PASSWORD_FILE")
	files := map[string]*string{"--req-username-file": &s.userFile, "--req-password-file": &s.passFile}
	for len(args) > 0 {
		name, value, valued := strings.Cut(args[0], "=")
		args = args[1:]
		if files[name] == nil {
			return fmt.Errorf("want %s, got %s", words.List([]string{"--req-username-file", "--req-password-file"}), failure.Printable(name))
		}
		if !valued && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if value == "" {
			return fmt.Errorf("%s needs a value", name)
		}
		*files[name] = value
	}
	return nil
}

// objects translates which objects, and the folder.
func (s *k8sSidecar) objects() error {
	label, folder := s.env.get("LABEL"), s.env.get("FOLDER")
	if label == "" || folder == "" {
		return errors.New("LABEL and FOLDER must be set")
	}
	if value := s.env.get("LABEL_VALUE"); value != "" {
		label += "=" + value
	}
	kinds := []string{cmp.Or(s.env.get("RESOURCE"), "configmap")}
	switch kinds[0] {
	case "both":
		kinds = []string{"secret", "configmap"}
	case "secret", "configmap":
	default:
		return fmt.Errorf("RESOURCE: want configmap, secret or both, got %s", failure.Printable(kinds[0]))
	}
	for _, kind := range kinds {
		for namespace := range strings.SplitSeq(s.env.get("NAMESPACE"), ",") {
			if err := s.targets(kind, strings.TrimSpace(namespace), label); err != nil {
				return err
			}
		}
	}
	s.line.Arguments = append(s.line.Arguments, strings.TrimSuffix(folder, "/")+"/")
	return nil
}

// inQuery escapes a value in the query of a target.
var inQuery = strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", "?", "%3F")

// targets adds the targets of one kind in one namespace.
func (s *k8sSidecar) targets(kind, namespace, label string) error {
	in := ""
	switch namespace {
	case "":
	case "ALL":
		in = "#namespace=*"
	default:
		in = "?namespace=" + inQuery.Replace(namespace)
	}
	names := s.env.get("RESOURCE_NAME")
	if names == "" || namespace == "ALL" {
		join := strings.Replace(in, "?", "&", 1)
		s.line.Arguments = append(s.line.Arguments, "k8s:"+kind+"s?selector="+inQuery.Replace(label)+join)
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		parts := strings.Split(strings.TrimSpace(name), "/")
		last := len(parts) - 1
		switch {
		case last > 2:
			return fmt.Errorf("RESOURCE_NAME: want NAME, KIND/NAME or NAMESPACE/KIND/NAME, got %s", failure.Printable(name))
		case last == 2 && (parts[0] != namespace || parts[1] != kind), last == 1 && parts[0] != kind: // of another round
			continue
		}
		s.line.Arguments = append(s.line.Arguments, "k8s:"+kind+"/"+inQuery.Replace(parts[last])+in)
	}
	return nil
}

// files translates the flags of files.
func (s *k8sSidecar) files() error {
	s.add("folder-annotation", cmp.Or(s.env.get("FOLDER_ANNOTATION"), "k8s-sidecar-target-directory"))
	s.add("fetch-urls", "true")
	if s.on("UNIQUE_FILENAMES") {
		s.add("unique-names", "true")
	}
	mode := cmp.Or(s.env.get("DEFAULT_FILE_MODE"), "644") // of Secrets, too: other containers read them
	if _, err := strconv.ParseUint(mode, 8, 9); err != nil {
		return fmt.Errorf("DEFAULT_FILE_MODE: want three digits such as 440, got %s", failure.Printable(mode))
	}
	s.add("mode", "0"+strings.TrimLeft(mode, "0"))
	return nil
}

// webhook translates the request after a change.
func (s *k8sSidecar) webhook() error {
	address := s.env.get("REQ_URL")
	if address == "" {
		return nil
	}
	user, password := s.secret(s.userFile, "REQ_USERNAME"), s.secret(s.passFile, "REQ_PASSWORD")
	if scheme, rest, ok := strings.Cut(address, "://"); ok && user != "" && password != "" {
		address = scheme + "://" + user + ":" + password + "@" + rest
	} else if u, err := url.Parse(address); err == nil && u.User != nil {
		address = "${env:REQ_URL}" // the variable may come from a Secret
	}
	s.add("webhook-url", address)
	method := cmp.Or(s.env.get("REQ_METHOD"), "GET")
	if method != "GET" && method != "POST" {
		return fmt.Errorf("REQ_METHOD: want GET or POST, got %s", failure.Printable(method))
	}
	s.add("webhook-method", method)
	if payload := s.env.get("REQ_PAYLOAD"); payload != "" && method == "POST" {
		if !json.Valid([]byte(payload)) {
			quoted, _ := json.Marshal(payload)
			payload = string(quoted)
		}
		s.line.Body = payload
	}
	if timeout := s.env.get("REQ_TIMEOUT"); timeout != "" {
		s.add("webhook-timeout", timeout+"s")
	}
	if s.on("REQ_SKIP_TLS_VERIFY") {
		s.add("webhook-insecure", "true")
	}
	if s.on("REQ_SKIP_INIT") {
		s.add("webhook-skip-first", "true")
	}
	return nil
}

// secret returns a reference to the file or the variable, or "" without either.
func (s *k8sSidecar) secret(file, variable string) string {
	switch {
	case file != "":
		return "${file:" + file + "}"
	case s.env.get(variable) != "":
		return "${env:" + variable + "}"
	}
	return ""
}

// method translates how long it runs, and the health port.
func (s *k8sSidecar) method() error {
	every := "10m"
	switch s.env.get("METHOD") {
	case "LIST":
		return nil
	case "SLEEP":
		every = cmp.Or(s.env.get("SLEEP_TIME"), "60") + "s"
	}
	s.add("watch", every)
	port, host := s.env.get("HEALTH_PORT"), s.env.get("HEALTH_HOST")
	if port != "" || host != "" {
		s.add("http", net.JoinHostPort(host, cmp.Or(port, SidecarPort)))
	}
	return nil
}
