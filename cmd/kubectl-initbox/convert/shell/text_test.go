package shell

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFilters compares what is known of the output of commands with what they print.
func TestFilters(t *testing.T) {
	read := 0
	var commands []string
	for _, path := range []string{"/", "//", "a", "a/", "/a", "/a//b//", "//a", "a/b.c", ".c", "a.c/", "./a", "."} {
		commands = append(commands, "basename "+path, "basename "+path+" .c", "dirname "+path)
	}
	for _, filter := range []string{
		"cut -d: -f1", "cut -d : -f2-", "cut -d: -f-2", "cut -d: -f2-3", "cut -d: -f9", "cut -c1", "cut -c2-4", "cut -c9-", "cut -f1", "cut -d' ' -f2", "cut -d: -f3-2", "cut -d: -f0",
		"tr a-z A-Z", "tr : ' '", "tr -d :", "tr -d a-z", "tr abc x", "tr ab xyz", "tr '[:lower:]' '[:upper:]'", `tr : '\n'`, `tr -d '\n'`, "tr a-c x-z", "tr aa xy", "tr - _",
		"head -n1", "head -n 1", "head -1", "head -2", "head -n 0", "awk '{print $1}'", "awk '{print $2}'", "awk -F: '{print $2}'", "awk -F : '{ print $9; }'", "awk -F. '{print $1}'",
		"cut -d: -f1 | tr a-z A-Z", "head -n1 | awk '{print $2}' | cut -c1",
	} {
		for _, text := range []string{"a:b:c", "", "  x  y ", ":", "a-b:c d", `a:b\nc:d\n`, "db:5432", "::"} {
			commands = append(commands, "printf '"+text+"' | "+filter, "echo '"+text+"' | "+filter)
		}
	}
	commands = append(commands, "printf '%s-%s\\n' a b c", "printf '%s'", "printf 'x%%\\n' a", "printf '%s\\t' a b", "printf x", "echo", "echo -n a", "echo -n", "echo a  b", "seq 3", "seq 2 4", "seq 1 2 6")
	for _, command := range commands {
		parsed, err := Parse(`a "$(`+command+`)"`, Options{Program: "sh"})
		if err != nil {
			continue
		}
		read++
		want, _ := parsed.Body[0].Call.Args[0].Literal()
		for _, args := range [][]string{{"sh", "-c", command}, {"busybox", "sh", "-c", command}} {
			if _, err := exec.LookPath(args[0]); err != nil {
				continue
			}
			got, err := exec.Command(args[0], args[1:]...).Output()
			if text := strings.TrimRight(string(got), "\n"); text != want || err != nil {
				t.Errorf("%v prints %q, %v, and was read as %q", args, text, err, want)
			}
		}
	}
	if read < len(commands)/2 {
		t.Errorf("only %d of %d commands were read", read, len(commands))
	}
}
