package convert

import (
	"regexp"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// noMatch returns the error of a comparison that is not known to be the same as a setting.
func noMatch(m *shell.Match, why string) error {
	return &shell.Error{Pos: m.Call.Pos, Word: strings.TrimSpace(m.Op + " " + m.Pattern.String()), Why: why}
}

// patternOf returns the literal text that a comparison looks for.
func patternOf(m *shell.Match) (string, error) {
	text, ok := m.Pattern.Literal()
	if !ok || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return "", noMatch(m, "a text that is not known")
	}
	return text, nil
}

// matchOf returns what follows body=, contains= or == in a setting, so that the whole text is as the comparison wants.
func matchOf(m *shell.Match) (string, error) {
	text, err := patternOf(m)
	if err != nil {
		return "", err
	}
	switch m.Op {
	case "=", "==":
		return "/\\A" + regexp.QuoteMeta(text) + "\\n*\\z/", nil
	case "-n":
		return `/[^\n]/`, nil
	case "grep -F":
		if text != "" && !slashes(text) {
			return text, nil
		}
		return "/" + regexp.QuoteMeta(text) + "/", nil
	case "grep", "grep -E":
		return grepped(m, text)
	}
	return "", noMatch(m, "a comparison that initbox does not have")
}

func slashes(text string) bool { return strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") }

// grepped turns a regular expression of grep into one of initbox, if all of it means the same in both.
func grepped(m *shell.Match, text string) (string, error) {
	special := `\.[]*^$`
	if m.Op == "grep -E" {
		special += "+?(){}|"
	}
	if !strings.ContainsAny(text, special) {
		if text == "" || slashes(text) {
			return "", noMatch(m, "a pattern that is empty, or would be read as another one")
		}
		return text, nil
	}
	// What is left out differs: {n} and \| of basic expressions, classes such as [[:digit:]], back references, [^x],
	// which here matches a line break.
	shared := `[A-Za-z0-9 _:,"'=<>@&%;~!#/-]|\.|\*|\\[.*$^]|\[[A-Za-z0-9_.-]+\]`
	if m.Op == "grep -E" {
		shared += `|[+?()|]`
	}
	if !regexp.MustCompile(`^\^?(` + shared + `)*\$?$`).MatchString(text) {
		return "", noMatch(m, "a pattern with characters that may mean something else here")
	}
	if _, err := regexp.Compile(text); err != nil || strings.HasPrefix(strings.TrimPrefix(text, "^"), "*") {
		return "", noMatch(m, "a pattern that is not one here")
	}
	return "/" + text + "/", nil
}

var (
	statusPattern = lazy.Regexp(`^\^?\(?([1-5][0-9][0-9])((?:\|[1-5][0-9][0-9])*)\)?\$?$`)
	classPattern  = lazy.Regexp(`^\^?([1-5])(\.\.|\[0-9\]\[0-9\])\$?$`)
	jqPath        = lazy.Regexp(`^(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\]|\.?\["[A-Za-z0-9_. -]+"\])+$`)
	jqEquals      = lazy.Regexp(`^(\S+)\s*==\s*("[A-Za-z0-9_. -]*"|[0-9]+|true|false)$`)
)

// statusesOf returns the setting of the statuses that a comparison with what curl -w '%{http_code}' prints wants. Where
// there is no answer, curl prints 000.
func statusesOf(m *shell.Match) (string, error) {
	text, err := patternOf(m)
	if err != nil {
		return "", err
	}
	number, _ := strconv.Atoi(text)
	switch m.Op {
	case "=", "==", "-eq":
		if number >= 100 && number <= 599 && len(text) == 3 {
			return "status=" + text, nil
		}
	case "!=", "-ne":
		if text == "000" || text == "0" && m.Op == "-ne" {
			return "status=any", nil
		}
	case "grep", "grep -F", "grep -E":
		found := statusPattern().FindStringSubmatch(text)
		class := classPattern().FindStringSubmatch(text)
		switch {
		case found != nil && (found[2] == "" || m.Op == "grep -E") && (m.Op != "grep -F" || len(text) == 3):
			return "status=" + found[1] + strings.ReplaceAll(found[2], "|", ","), nil
		case class != nil && m.Op != "grep -F":
			return "status=" + class[1] + "00-" + class[1] + "99", nil
		case regexp.MustCompile(`^\^[1-5]$`).MatchString(text) && m.Op != "grep -F":
			return "status=" + text[1:] + "00-" + text[1:] + "99", nil
		}
	}
	return "", noMatch(m, "a comparison of statuses that initbox does not have")
}

// curlMatch compares what curl prints.
func curlMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	call := *m.Call
	filter := call.Pipe
	call.Pipe = nil
	if err := noPipes(&call); err != nil {
		return Step{}, err
	}
	if call.Stdout != nil {
		return Step{}, noMatch(m, "the output goes elsewhere")
	}
	r, g, err := curlRequest(&call, c)
	if err != nil {
		return Step{}, err
	}
	if g.has("w") && filter == nil {
		return r.statusStep(g, m, &call, c)
	}
	setting, err := bodySetting(filter, m)
	if err != nil {
		return Step{}, err
	}
	return r.bodyStep(g, &call, c, setting)
}

// statusStep returns the step for the status that curl prints.
func (r request) statusStep(g given, m *shell.Match, call *shell.Call, c *manifest.Container) (Step, error) {
	format, _ := g.get("w").Literal()
	output, _ := g.get("o").Literal()
	switch strings.TrimSuffix(format, `\n`) {
	case "%{http_code}", "%{response_code}":
	default:
		return Step{}, stop(g.get("w"), "more than the status is printed")
	}
	if output != "/dev/null" || g.has("i") {
		return Step{}, &shell.Error{Pos: call.Pos, Word: "-w", Why: "the body or the headers are printed, too"}
	}
	setting, err := statusesOf(m)
	if err != nil {
		return Step{}, err
	}
	if len(r.settings) > 0 && r.settings[0] == "status=any" {
		r.settings = r.settings[1:]
	}
	r.settings = append([]string{setting}, r.settings...)
	return r.step("the status that curl prints is as compared", call, c)
}

// bodySetting returns the setting for a body that is compared, itself or through jq.
func bodySetting(filter *shell.Call, m *shell.Match) (string, error) {
	if filter == nil {
		text, err := matchOf(m)
		return "body=" + settingPlace.encode(text), err
	}
	path, raw, err := jqFilter(filter)
	if err != nil {
		return "", err
	}
	if strings.Contains(path, " ") {
		return "", noMatch(m, "the value of a comparison")
	}
	text, err := patternOf(m)
	if err != nil {
		return "", err
	}
	compared := ""
	switch m.Op {
	case "=", "==", "-eq":
		if m.Op == "-eq" && strings.Trim(text, "0123456789") != "" || text == "null" || text == "" || slashes(text) {
			return "", noMatch(m, "a comparison that may mean something else here")
		}
		unquoted := strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
		if raw == (unquoted != text) && strings.Trim(text, "0123456789") != "" && text != "true" && text != "false" {
			return "", noMatch(m, "jq prints a text with quotes unless it has -r")
		}
		compared = "==" + text
	case "grep", "grep -E", "grep -F":
		if raw || !strings.ContainsAny(text, `"^$`) {
			if compared, err = matchOf(m); err != nil {
				return "", err
			}
			if !slashes(compared) {
				compared = "/" + regexp.QuoteMeta(compared) + "/"
			}
			if ok, _ := regexp.MatchString(strings.Trim(compared, "/"), "null"); ok {
				return "", noMatch(m, "jq prints null for what is missing, which the pattern matches")
			}
			return "json=" + path + "==" + settingPlace.encode(compared), nil
		}
		fallthrough
	default:
		return "", noMatch(m, "a comparison that initbox does not have")
	}
	return "json=" + path + settingPlace.encode(compared), nil
}

// jqFilter returns the filter of jq, and whether it prints texts without quotes.
func jqFilter(call *shell.Call) (filter string, raw bool, err error) {
	unknown := &shell.Error{Pos: call.Pos, Word: call.Name, Why: "a program that reads the answer, and is not jq with a path"}
	if call.Name != "jq" || call.Stdin != nil || call.Stdout != nil && call.Stdout.File != nil || call.Pipe != nil {
		return "", false, unknown
	}
	g, err := optionsOf("r raw-output; e exit-status; c compact-output; M monochrome-output").read(call.Args)
	if err != nil {
		return "", false, err
	}
	if len(g.args) != 1 {
		return "", false, unknown
	}
	filter, ok := g.args[0].Literal()
	filter = strings.TrimSpace(filter)
	if !ok || !jqPath().MatchString(filter) && !jqEquals().MatchString(filter) {
		return "", false, stop(g.args[0], "a filter of jq that initbox does not have")
	}
	return filter, g.has("r"), nil
}

// jqTest returns the setting for jq -e, which fails if the value is null or false.
func jqTest(call *shell.Call) (string, error) {
	filter, _, err := jqFilter(call)
	if err != nil {
		return "", err
	}
	if g, err := optionsOf("r raw-output; e exit-status; c compact-output; M monochrome-output").read(call.Args); err != nil || !g.has("e") {
		return "", &shell.Error{Pos: call.Pos, Word: call.Name, Why: "without -e it succeeds with any value"}
	}
	if equals := jqEquals().FindStringSubmatch(filter); equals != nil {
		if !jqPath().MatchString(equals[1]) {
			return "", &shell.Error{Pos: call.Pos, Word: filter, Why: "a filter of jq that initbox does not have"}
		}
		filter = equals[1] + "==" + equals[2]
	}
	return "json=" + filter, nil
}

// wgetMatch compares the body that wget prints, or looks for the status in its log.
func wgetMatch(m *shell.Match, c *manifest.Container) (Step, error) {
	call := *m.Call
	filter := call.Pipe
	call.Pipe = nil
	if err := noPipes(&call); err != nil {
		return Step{}, err
	}
	r, g, err := wgetRequest(&call, c)
	if err != nil {
		return Step{}, err
	}
	log := call.Stderr != nil && !call.Stderr.Discard
	if output, _ := g.get("O").Literal(); output == "-" && !g.has("spider") && !log && call.Stdout == nil {
		setting, err := bodySetting(filter, m)
		if err != nil {
			return Step{}, err
		}
		r.settings = append(r.settings, setting)
		return r.step("the body of the same answer has what the script looks for", &call, c)
	}
	text, err := patternOf(m)
	if err == nil && log && filter != nil && filter.Pipe == nil && filter.Name == "awk" && len(filter.Args) == 1 && g.has("S") && (m.Op == "=" || m.Op == "-eq") {
		if status := lazyStatusLine().FindStringSubmatch(text); status != nil && statusField().MatchString(filter.Args[0].String()) {
			r.settings = append([]string{"status=" + status[1], "no-redirect"}, r.settings[1:]...) // of which there would be two
			return r.step("the status is the one that the script looks for", &call, c)
		}
	}
	if err != nil || !log || filter != nil || !g.has("S") || !strings.HasPrefix(m.Op, "grep") {
		return Step{}, noMatch(m, "not the status in what wget -S writes")
	}
	status := lazyStatusLine().FindStringSubmatch(text)
	if status == nil {
		return Step{}, noMatch(m, "not the status in what wget -S writes")
	}
	r.settings[0] = "status=" + status[1]
	if text == status[1] {
		r.differs = append(r.differs, "the status must be "+text+"; the number in another header does not count")
	}
	return r.step("the status is the one that the script looks for", &call, c)
}

// statusField matches the program of awk that prints the status in the lines of HTTP.
var statusField = lazy.Regexp(`^\s*/\^?\s*HTTP(\\?/)?\S*/\s*\{\s*print \$2;?\s*\}\s*$`)

var lazyStatusLine = lazy.Regexp(`^(?:HTTP/(?:1\.[01]|\.\*|1\.\.|1\\\.[01]) )?(2[0-9][0-9])(?: OK)?$`)
