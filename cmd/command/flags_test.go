package command

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
)

// TestFlagVariables pins that no flag is fed from a variable which Kubernetes
// sets in every container for a Service called initbox, or initbox-something
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
func TestFlagVariables(t *testing.T) {
	injected := regexp.MustCompile(`_PORT$|_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_[0-9]+_`)
	app := new(env).newApp("")
	flags := map[string][]cli.Flag{app.Name: app.Flags}
	for _, cmd := range app.Commands {
		flags[cmd.Name] = cmd.Flags
	}
	variables := 0
	for name, list := range flags {
		for _, f := range list {
			for _, variable := range f.(cli.DocGenerationFlag).GetEnvVars() {
				variables++
				if injected.MatchString(variable) {
					t.Errorf("%s --%s is fed from %s, which Kubernetes may set", name, f.Names()[0], variable)
				}
				if !strings.HasPrefix(variable, "INITBOX_") {
					t.Errorf("%s --%s is fed from %s, which may be another program's", name, f.Names()[0], variable)
				}
			}
		}
	}
	if variables == 0 {
		t.Error("no flag has a variable: this tests nothing")
	}
}

// TestFlagsOfEveryCommand pins what holds for all: the common flags are there, no
// name is given twice, every flag says what it is for, and none takes a secret.
func TestFlagsOfEveryCommand(t *testing.T) {
	for _, cmd := range new(env).newApp("").Commands {
		var names []string
		for _, f := range cmd.Flags {
			names = append(names, f.Names()...)
			if f.(cli.DocGenerationFlag).GetUsage() == "" {
				t.Errorf("%s --%s: no usage", cmd.Name, f.Names()[0])
			}
		}
		for _, common := range []string{"timeout", "log-format", "log-level", "termination-log"} {
			if !slices.Contains(names, common) {
				t.Errorf("%s: no --%s", cmd.Name, common)
			}
		}
		for _, secret := range []string{"password", "token", "secret", "private-key", "api-key"} { // not key: that of a Secret is a name
			if slices.Contains(names, secret) && cmd.Name+" "+secret != "generate secret" { // which names a Secret
				t.Errorf("%s --%s: a secret comes from a file, not from the command line", cmd.Name, secret)
			}
		}
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s: duplicate flag: %s", cmd.Name, names)
		}
	}
}

func TestPermute(t *testing.T) {
	flags := []cli.Flag{&cli.StringFlag{Name: "s", Usage: "a `FILE`"}, &cli.BoolFlag{Name: "b"}, &cli.StringFlag{Name: flagTerminationLog}, &cli.BoolFlag{Name: flagFromK8sWaitFor}}
	for _, test := range []struct{ args, want string }{
		{"", "--"},
		{"x", "-- x"},
		{"x --s v y", "--s v -- x y"},
		{"x -s v y", "-s v -- x y"},
		{"x --s=v y", "--s=v -- x y"},
		{"--s -v x", "--s -v -- x"}, // a value may begin with a dash
		{"--s=-- x", "--s=-- -- x"}, // or be two
		{"--b x y", "--b -- x y"},
		{"x --b", "--b -- x"},
		{"x --b=false", "--b=false -- x"},
		{"--termination-log= x", "--termination-log= -- x"}, // none
		{"x - y", "-- x - y"},                               // by custom, stdin
		{"-5 -b", "-b -- -5"},                               // a number, not a flag
		{"x -- --b y", "-- x, then --b y"},
		{"--b -- -- y", "--b --, then -- y"},
		{"x --unknown y", "--unknown -- x y"},
		{"x --help", "--help"},
		{"x -h y", "--help y"}, // a topic
		{"x --help y --b --s z -- w", "--help y"},
		{"--s --help x", "--s --help -- x"},
		{"x -- --help", "-- x, then --help"},
		{"x -- y --b -- z", "-- x, then y --b -- z"}, // is the command's
		{"x --", "-- x, then "},
		{"x --from-k8s-wait-for pod -ly --b", "--from-k8s-wait-for -- x -- pod -ly --b"},
		{"--from-k8s-wait-for -- pod y", "--from-k8s-wait-for -- -- pod y"},
		{"--from-k8s-wait-for=false x --b", "--from-k8s-wait-for=false --b -- x"},
		{"--from-k8s-wait-for pod --help", "--help"},
	} {
		line, next, err := permute(strings.Fields(test.args), flags)
		got := strings.Join(line, " ")
		if next != nil {
			got += ", then " + strings.Join(next, " ")
		}
		if got != test.want || err != nil {
			t.Errorf("permute(%s) = %s, %v, want %s", test.args, got, err, test.want)
		}
	}
	for _, args := range []string{"x --s", "--s -- x", "x --s= y", "--s= -- x"} {
		const want = "--s needs a value: --s=FILE"
		if got, _, err := permute(strings.Fields(args), flags); err == nil || err.Error() != want || status(err) != exitUsage {
			t.Errorf("permute(%s) = %s, %v, want the usage error %s", args, got, err, want)
		}
	}
}

// TestHelpWidth pins that the help fits a terminal, and that its sections stand in the same order for every subcommand.
func TestHelpWidth(t *testing.T) {
	order := []string{categoryResult, categoryWait, categoryDNS, categoryCommon, "Exit status"}
	for _, args := range [][]string{{"--help"}, {"wait-for-dns", "--help"}, {"wait-for-service", "--help"}, {"help", "wait-for-service", "all"}, {"help", "redis"}, {"sleep", "--help"}} {
		command := args[0]
		var stdout, stderr bytes.Buffer
		if got := Run("devel", append([]string{"initbox"}, args...), nil, &stdout, &stderr); got != 0 || stdout.Len() == 0 {
			t.Errorf("%s --help: status %d, %d bytes", command, got, stdout.Len())
		}
		next := 0
		for line := range strings.Lines(stdout.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > help.Width {
				t.Errorf("%s --help: %d columns: %s", command, n, line)
			}
			if i := slices.Index(order, strings.TrimSuffix(line, ":")); i >= 0 {
				if i < next {
					t.Errorf("%s --help: section %s too late", command, line)
				}
				next = i
			}
		}
	}
}

func TestNameServers(t *testing.T) {
	for text, want := range map[string]string{
		"10.96.0.10": "10.96.0.10:53", "10.96.0.10:5353": "10.96.0.10:5353", "::1": "[::1]:53", "[::1]": "[::1]:53", "[fd00::10]:5353": "[fd00::10]:5353", "fe80::1%eth0": "[fe80::1%eth0]:53",
	} {
		if got, err := nameServers([]string{text}); err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("--server %s is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "kube-dns", "10.96.0", "10.96.0.10:", "10.96.0.10:dns", "10.96.0.10:99999", "10.96.0.10,10.96.0.11", "udp://10.96.0.10"} {
		if got, err := nameServers([]string{text}); err == nil {
			t.Errorf("--server %q is %v, want an error", text, got)
		}
	}
}

// TestCut pins that a message is cut between characters.
func TestCut(t *testing.T) {
	const message = "aé€😀"
	for n := range len(message) + 2 {
		got := cut(message, n)
		if len(got) > n || !utf8.ValidString(got) || !strings.HasPrefix(message, got) {
			t.Errorf("cut(%q, %d) = %q", message, n, got)
		}
		if n < len(message) && utf8.RuneStart(message[n]) && len(got) != n {
			t.Errorf("cut(%q, %d) = %q cuts too much", message, n, got)
		}
	}
	long := strings.Repeat("é", maxTerminationMessage)
	if got := len(cut(long, maxTerminationMessage)); got != maxTerminationMessage {
		t.Errorf("%d bytes of a long message, want %d", got, maxTerminationMessage)
	}
}
