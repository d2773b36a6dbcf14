package convert

import (
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// sysctl sets parameters of the kernel. What it prints of others is left out.
func sysctl(call *shell.Call, c *manifest.Container) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, at(call, err)
	}
	o, words, err := readOptions(call.Args, "w write; q quiet; e ignore; n values; N names; p load")
	if err != nil {
		return nil, at(call, err)
	}
	s := Step{Subcommand: "sysctl", AsRoot: true, Why: "sysctl sets the same parameters"}
	if o.has("e") {
		s.Flags = append(s.Flags, Flag{"if-exists", ""})
	}
	if o.has("p") {
		if len(words) == 0 {
			return nil, &shell.Error{Pos: call.Pos, Word: "sysctl -p", Why: "the file /etc/sysctl.conf of the image"}
		}
		k := &files{c: c}
		for _, w := range words {
			p, err := k.place(w, call)
			if err != nil {
				return nil, at(call, err)
			}
			s.Inside = s.Inside || k.inImage(p)
			s.Flags = append(s.Flags, Flag{"file", p.text})
		}
		return []Step{s}, nil
	}
	printed := 0
	for _, w := range words {
		text, ok := known(w, c)
		name, _, set := strings.Cut(text, "=")
		switch shown, err := arg(w, c); {
		case ok && !set && !o.has("w"):
			printed++
		case err != nil:
			return nil, at(call, err)
		case !ok && !strings.Contains(shown, "="), ok && (!set || strings.ContainsAny(name, "*> #%")):
			return nil, at(call, stop(w, "not KEY=VALUE"))
		case strings.ContainsAny(text, "#%"):
			return nil, at(call, stop(w, "a character that would have another meaning in initbox's arguments"))
		default:
			s.Args = append(s.Args, shown)
		}
	}
	if len(s.Args) == 0 && printed > 0 {
		return nil, nil
	}
	if len(s.Args) == 0 {
		return nil, &shell.Error{Pos: call.Pos, Word: "sysctl", Why: "no parameter"}
	}
	return []Step{s}, nil
}

// writeParameter sets the parameter whose file is name.
func writeParameter(name string, t template, w shell.Word) ([]Step, error) {
	value := strings.TrimSuffix(t.text, "\n")
	if value == "" || strings.ContainsAny(value, "\n{#%") || strings.ContainsAny(name, "*?#%=") {
		return nil, stop(w, "a value that is not a plain text")
	}
	if rest, ok := strings.CutPrefix(name, "/proc/sys/"); ok && !strings.Contains(rest, ".") {
		name = strings.ReplaceAll(rest, "/", ".")
	}
	return []Step{{Subcommand: "sysctl", AsRoot: true, Args: []string{name + "=" + value}, Why: "sysctl sets the same parameter"}}, nil
}
