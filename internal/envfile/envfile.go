// Package envfile writes files of environment variables, for fileKeyRef of Kubernetes and for shells.
package envfile

import (
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"initbox/internal/lazy"
)

// The limits of KEP-3721 for files of environment variables, in bytes.
const (
	envFileMax  = 64 << 10
	envNameMax  = 128
	envValueMax = 32 << 10
)

// envName is what the API accepts as the name of an environment variable
// (IsEnvVarName in k8s.io/apimachinery); the kubelet finds each of these.
var envName = lazy.Regexp(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

// Write writes values as a file that a container's fileKeyRef can refer to: lines of NAME='value', sorted by
// name, as the kubelet reads them (KEP-3721; pkg/kubelet/util/env). Between the quotes everything stands for itself, so
// that a shell reads the same. Values are strings, booleans or numbers. If the format cannot express a value, the error
// has its name, not the value, and nothing is written.
func Write(w io.Writer, values map[string]any) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, err := Text(values[name])
		if err == nil {
			err = checkEnv(name, text)
		}
		if err != nil {
			return fmt.Errorf("env file: %s: %w", envShown(name), err)
		}
		fmt.Fprintf(&b, "%s='%s'\n", name, text)
	}
	if b.Len() > envFileMax {
		return fmt.Errorf("env file: %d bytes are more than the %d that Kubernetes allows", b.Len(), envFileMax)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func envShown(name string) string {
	if envName().MatchString(name) && len(name) <= envNameMax {
		return name
	}
	return fmt.Sprintf("%.60q", name)
}

// Text returns the text of a value: a string, a boolean or a number.
func Text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case *big.Int:
		return v.String(), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case nil:
		return "", envError("there is no value")
	case map[string]any:
		return "", envError("a map cannot be the value of a variable: name its keys one by one")
	case []any:
		return "", envError("a list cannot be the value of a variable: join it to a string")
	}
	return "", envError(fmt.Sprintf("a %T cannot be the value of a variable", v))
}

// envError is the cause in an error of [Write].
type envError string

func (e envError) Error() string { return string(e) }

// checkEnv returns why the kubelet would refuse or change a variable.
func checkEnv(name, value string) error {
	cr := strings.Index(value, "\r\n")
	switch {
	case !envName().MatchString(name), name == ".", strings.HasPrefix(name, ".."):
		return envError("not the name of an environment variable: want letters, digits, _, - and ., and no digit first")
	case len(name) > envNameMax:
		return envError(fmt.Sprintf("the name is longer than the %d bytes that Kubernetes allows", envNameMax))
	case value == "":
		return envError("the value is empty, which the kubelet takes for missing; leave the variable out, and say optional: true")
	case len(value) > envValueMax:
		return envError(fmt.Sprintf("the value is longer than the %d bytes that Kubernetes allows", envValueMax))
	case strings.Contains(value, "'"):
		return envError("the value contains a single quote, for which the format has no escape")
	case strings.Contains(value, "\x00"):
		return envError("the value contains a NUL byte")
	case cr >= 0: // bufio.ScanLines
		return envError("the value contains a carriage return at the end of a line, which the kubelet drops")
	case !utf8.ValidString(value):
		return envError("the value is not UTF-8")
	}
	return nil
}
