package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// origin says where the value of a variable comes from. An origin that comes later needs more care.
type origin int

const (
	inManifest  origin = iota // the manifest has the value
	inPod                     // a field of the Pod or a resource of the container: one word of harmless characters
	inConfigMap               // a key of a ConfigMap that must exist; its value is not known here
	inSecret                  // likewise, of a Secret
	nowhere                   // certainly unset
	uncertain                 // not known: variable.why says why
)

// variable is what is known of a variable of a container.
type variable struct {
	origin origin
	value  string // if inManifest
	why    string // if uncertain
}

// lookup returns what is known of the variable NAME in c.
func lookup(name string, c *manifest.Container) variable { return lookupBefore(name, c, len(c.Env)) }

// lookupBefore knows only the first n entries of env, as the kubelet does where it expands the value of the next one.
func lookupBefore(name string, c *manifest.Container, n int) variable {
	for i := n - 1; i >= 0; i-- {
		if e := c.Env[i]; e.Name == name {
			if e.ValueFrom == nil {
				return valueOf(e.Value, c, i)
			}
			return reference(e.ValueFrom)
		}
	}
	switch {
	case strings.HasPrefix(name, shell.FileText):
		return variable{origin: uncertain, why: "what is in a file"}
	case len(c.EnvFrom) > 0:
		return variable{origin: uncertain, why: "it may come from envFrom"}
	case slices.Contains(strings.Fields(byRuntime), name):
		return variable{origin: uncertain, why: "it is set by the container runtime, not by env"}
	case ofService().MatchString(name):
		return variable{origin: uncertain, why: "it is set by the kubelet if there is such a Service"}
	case imageSets(c.Image, name):
		return variable{origin: uncertain, why: "it is not in env, but the image may set it"}
	}
	return variable{origin: nowhere}
}

// valueOf returns the variable whose value in the manifest, where others may be named by $(NAME), is text.
func valueOf(text string, c *manifest.Container, n int) variable {
	word, err := kubeletWord(text, c, n)
	if err != nil {
		return variable{origin: uncertain, why: err.Error()}
	}
	result := variable{}
	for _, p := range word {
		v := variable{value: p.Text}
		if p.Env != "" {
			v = lookupBefore(p.Env, c, n)
		}
		result.origin, result.value = max(result.origin, v.origin), result.value+v.value
	}
	if result.origin != inManifest {
		result.value = ""
	}
	return result
}

func reference(from *corev1.EnvVarSource) variable {
	optional := func(o *bool) bool { return o != nil && *o }
	switch {
	case from.FieldRef != nil && strings.HasPrefix(from.FieldRef.FieldPath, "metadata.annotations"):
		return variable{origin: uncertain, why: "an annotation may be missing, and be any text"}
	case from.FieldRef != nil && strings.HasPrefix(from.FieldRef.FieldPath, "metadata.labels"):
		return variable{origin: uncertain, why: "a label may be missing"}
	case from.FieldRef != nil, from.ResourceFieldRef != nil:
		return variable{origin: inPod}
	case from.ConfigMapKeyRef != nil && optional(from.ConfigMapKeyRef.Optional), from.SecretKeyRef != nil && optional(from.SecretKeyRef.Optional):
		return variable{origin: uncertain, why: "its key is optional, so that it may be unset"}
	case from.ConfigMapKeyRef != nil:
		return variable{origin: inConfigMap}
	case from.SecretKeyRef != nil:
		return variable{origin: inSecret}
	}
	return variable{origin: uncertain, why: "it comes from a source that this version does not know"}
}

// byRuntime are variables that a container has without env, or that shells set themselves.
const byRuntime = "PATH HOME HOSTNAME TERM PWD OLDPWD SHLVL IFS PPID UID EUID RANDOM SECONDS LINENO BASH BASH_VERSION OPTIND OPTARG PS1 PS2 PS4 USER SHELL LANG _"

// ofService matches the variables that the kubelet sets for Services.
var ofService = lazy.Regexp(`_SERVICE_HOST$|_SERVICE_PORT($|_)|_PORT($|_[0-9]+_(TCP|UDP|SCTP))`)

// imageVariables are the variables beside PATH that official images set:
// https://github.com/docker-library/repo-info/tree/master/repos (the image configurations of each).
var imageVariables = map[string]string{
	"busybox": "", "alpine": "", "debian": "", "ubuntu": "",
	"mariadb":  "GOSU_VERSION GPG_KEYS LANG MARIADB_MAJOR MARIADB_VERSION REPOSITORY",
	"mysql":    "GOSU_VERSION GPG_KEYS MYSQL_MAJOR MYSQL_VERSION MYSQL_SHELL_VERSION",
	"postgres": "DOCKER_PG_LLVM_DEPS GOSU_VERSION LANG PG_MAJOR PG_SHA256 PG_VERSION PGDATA",
	"redis":    "GOSU_VERSION REDIS_DOWNLOAD_SHA REDIS_DOWNLOAD_SHA1 REDIS_DOWNLOAD_URL REDIS_VERSION",
}

func officialName(image string) string {
	image = strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
	image, _, _ = strings.Cut(image, "@")
	image, _, _ = strings.Cut(image, ":")
	return image
}

// bareImage reports whether an image is one of a distribution, whose configuration sets no variable but PATH.
func bareImage(image string) bool {
	names, found := imageVariables[officialName(image)]
	return found && names == ""
}

// imageSets reports whether an image sets a variable, or may do so.
func imageSets(image, name string) bool {
	names, found := imageVariables[officialName(image)]
	return !found || slices.Contains(strings.Fields(names), name)
}

// kubeletWord returns the word that the kubelet makes of a text in command or args: $(NAME) is the variable, if there
// is one, and $$ is $. An error says which name may or may not be one.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
func kubeletWord(text string, c *manifest.Container, n int) (shell.Word, error) {
	var word shell.Word
	var literal strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			literal.WriteByte(text[i])
			continue
		}
		end := strings.IndexByte(text[i:], ')')
		switch {
		case text[i+1] == '$':
			literal.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0 && variableName().MatchString(text[i+2:i+end]):
			name := text[i+2 : i+end]
			switch v := lookupBefore(name, c, n); {
			case slices.ContainsFunc(c.Env[:n], func(e corev1.EnvVar) bool { return e.Name == name }):
				if literal.Len() > 0 {
					word = append(word, shell.Part{Text: literal.String()})
					literal.Reset()
				}
				word = append(word, shell.Part{Env: name})
				i += end
			case v.origin == uncertain && strings.ToLower(name) != name && (len(c.EnvFrom) > 0 || ofService().MatchString(name)):
				return nil, &shell.Error{Word: "$(" + name + ")", Why: v.why}
			default:
				literal.WriteByte('$') // the kubelet leaves it as it is
			}
		default:
			literal.WriteByte('$')
		}
	}
	if literal.Len() > 0 || len(word) == 0 {
		word = append(word, shell.Part{Text: literal.String()})
	}
	return word, nil
}

var variableName = lazy.Regexp(`^[A-Za-z_.-][A-Za-z0-9_.-]*$`)

// words returns the words of a command line of c, such as its command and args.
func words(texts []string, c *manifest.Container) ([]shell.Word, error) {
	list := make([]shell.Word, 0, len(texts))
	for _, text := range texts {
		w, err := kubeletWord(text, c, len(c.Env))
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// arg returns a word as it stands in args of a container: $(NAME) for a variable, $$( for the text $(. It returns an
// error for a variable that may be unset or is a secret, and for a pattern.
func arg(w shell.Word, c *manifest.Container) (string, error) { return format(w, c, false) }

// secretArg is like [arg], but a variable from a Secret is ${env:NAME}, which initbox reads itself, so that the secret
// is in no command line. It is for arguments in which initbox reads such references.
func secretArg(w shell.Word, c *manifest.Container) (string, error) { return format(w, c, true) }

// args returns several words as [arg] does.
func args(list []shell.Word, c *manifest.Container) ([]string, error) {
	texts := make([]string, 0, len(list))
	for _, w := range list {
		text, err := arg(w, c)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func format(w shell.Word, c *manifest.Container, secrets bool) (string, error) {
	var b strings.Builder
	for i, p := range w {
		switch {
		case p.Glob:
			return "", stop(w, "a pattern, which initbox does not expand")
		case p.Env == "":
			if secrets && strings.Contains(p.Text, "${") {
				return "", stop(w, "the text ${, which initbox would read as a reference")
			}
			b.WriteString(escape(p.Text, i+1 < len(w)))
			continue
		}
		text, err := formatVariable(w, p, c, secrets)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func formatVariable(w shell.Word, p shell.Part, c *manifest.Container, secrets bool) (string, error) {
	v := lookup(p.Env, c)
	switch {
	case strings.HasPrefix(p.Env, shell.FileText):
		return "", stop(w, v.why)
	case v.origin == uncertain:
		return "", stop(w, "the variable "+p.Env+": "+v.why)
	case p.Default != nil && (v.origin == nowhere || v.origin == inManifest && v.value == ""):
		return format(p.Default, c, secrets)
	case p.Default != nil && (v.origin == inConfigMap || v.origin == inSecret):
		return "", stop(w, "the value of "+p.Env+" may be empty, which would mean its default")
	case v.origin == nowhere:
		return "", stop(w, "the variable "+p.Env+" is not set")
	case p.Split && v.origin == inManifest && (v.value == "" || strings.ContainsAny(v.value, " \t\n*?[")):
		return "", stop(w, "the value of "+p.Env+", without quotes, is not one word")
	case v.origin == inSecret && !secrets:
		return "", stop(w, "the variable "+p.Env+" is from a Secret, which must not be in a command line")
	case v.origin == inSecret:
		return "${env:" + p.Env + "}", nil
	}
	return "$(" + p.Env + ")", nil
}

// escape returns text as it stands in args: the kubelet makes $ of $$, and replaces $(NAME).
func escape(text string, more bool) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteByte(text[i])
		if text[i] == '$' && (i+1 == len(text) && more || i+1 < len(text) && (text[i+1] == '$' || text[i+1] == '(')) {
			b.WriteByte('$')
		}
	}
	return b.String()
}

// known returns the text of a word if all of it is in the manifest.
func known(w shell.Word, c *manifest.Container) (text string, ok bool) {
	for _, p := range w {
		v := variable{value: p.Text}
		if p.Env != "" {
			v = lookup(p.Env, c)
		}
		if p.Glob || p.Default != nil || v.origin != inManifest {
			return "", false
		}
		text += v.value
	}
	return text, true
}

// literals returns the texts of words that have neither variables nor patterns, such as flags.
func literals(list []shell.Word) ([]string, error) {
	texts := make([]string, 0, len(list))
	for _, w := range list {
		text, ok := w.Literal()
		if !ok {
			return nil, stop(w, "not a plain text")
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// stop returns the error of a word that was not understood. Its place is filled in by the caller of the tables.
func stop(w shell.Word, why string) error {
	return &shell.Error{Word: w.String(), Why: why}
}
