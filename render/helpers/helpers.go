// Package helpers has the functions that templates for Pods need and template languages lack: numbers that depend on
// the Pod, and quoting for the formats of configuration files. Go templates and Jinja share them.
package helpers

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"

	"initbox/internal/podinfo"
	"initbox/render/engine"
)

// Funcs returns the functions by name, for templates that see data. Each is a Go
// function with one result, or with two of which the second is an error.
func Funcs(data *engine.Data) map[string]any {
	pod := podOf{data.Pod}
	return map[string]any{
		"ordinal":   pod.ordinal,
		"cpuCount":  pod.cpuCount,
		"memMiB":    pod.memMiB,
		"jvmHeap":   pod.jvmHeap,
		"hostport":  HostPort,
		"shquote":   ShellQuote,
		"sqlquote":  SQLQuote,
		"jsonquote": JSONQuote,
		"yamlquote": YAMLQuote,
		"iniquote":  INIQuote,
		"xmlquote":  XMLQuote,
	}
}

// Reads returns which field of .Pod a function reads, as in a Go template, or "".
func Reads(function string) string {
	return map[string]string{
		"ordinal": ".Pod.Name", "cpuCount": ".Pod.Limits.cpu", "memMiB": ".Pod.Limits.memory", "jvmHeap": ".Pod.Limits.memory",
	}[function]
}

// HostPort joins a host and a port, with brackets around an IPv6 address.
func HostPort(host string, port any) string {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return net.JoinHostPort(host, text(port))
}

// podOf has the functions that look at .Pod.
type podOf struct{ pod map[string]any }

// ordinal returns the number at the end of the Pod's name, or of name.
func (p podOf) ordinal(name ...string) (int, error) {
	switch {
	case len(name) > 1:
		return 0, errors.New("ordinal takes one name at most")
	case len(name) == 1:
		return podinfo.Ordinal(name[0])
	}
	own, _ := p.pod["Name"].(string)
	return podinfo.Ordinal(own)
}

// cpuCount returns how many cores the Pod's container may use, rounded up, for programs that want a number of threads.
func (p podOf) cpuCount() (int, error) {
	cores, err := p.limit("cpu")
	return max(1, int(math.Ceil(cores))), err
}

// memMiB returns the container's memory limit in MiB, or so many percent of it.
func (p podOf) memMiB(percent ...any) (int64, error) {
	share := 100.0
	switch {
	case len(percent) > 1:
		return 0, errors.New("memMiB takes at most one percentage")
	case len(percent) == 1:
		if _, err := fmt.Sscanf(text(percent[0])+"\n", "%g\n", &share); err != nil || share <= 0 || share > 100 {
			return 0, fmt.Errorf("want a percentage up to 100, got %q", text(percent[0]))
		}
	}
	limit, err := p.limit("memory")
	return int64(limit * share / 100 / (1 << 20)), err
}

// defaultHeap is how many percent of the memory a JVM's heap may take: the rest
// is for its threads, its code and its buffers.
const defaultHeap = 75

// jvmHeap returns the flag that sets a JVM's largest heap to that share of the container's memory limit, in percent.
func (p podOf) jvmHeap(percent ...any) (string, error) {
	if len(percent) == 0 {
		percent = []any{defaultHeap}
	}
	mib, err := p.memMiB(percent...)
	return fmt.Sprintf("-Xmx%dm", mib), err
}

func (p podOf) limit(resource string) (float64, error) {
	limits, _ := p.pod["Limits"].(map[string]any)
	switch limit := limits[resource].(type) {
	case float64:
		return limit, nil
	case int64:
		return float64(limit), nil
	}
	variable := map[string]string{"cpu": "CPU_LIMIT", "memory": "MEMORY_LIMIT"}[resource]
	return 0, fmt.Errorf("there is no %s limit: set $%s with a resourceFieldRef of limits.%s and containerName", resource, variable, resource)
}
