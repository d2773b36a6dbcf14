package convert

import (
	"slices"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// testFile is test or [ on a file of a volume.
func testFile(call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	if len(call.Args) != 2 {
		return Step{}, &shell.Error{Pos: call.Pos, Word: "[", Why: "not the test of one file"}
	}
	test, _ := call.Args[0].Literal()
	says, ok := map[string]struct{ setting, why, differs string }{
		"-e": {"", "the file exists", ""},
		"-a": {"", "the file exists", ""},
		"-f": {"", "the file exists", "a directory of that name counts, too"},
		"-d": {"", "the directory exists", "a file of that name counts, too"},
		"-S": {"", "the socket exists", "a file of that name counts, too"},
		"-s": {"#min-size=1", "the file exists and is not empty", ""},
	}[test]
	if !ok {
		return Step{}, stop(call.Args[0], "a test that initbox cannot wait for")
	}
	file, err := pathPlace.file(call.Args[1], c)
	if err != nil {
		return Step{}, err
	}
	s := wait(says.why, "file://"+file+says.setting)
	s.Writes = true // the directory may be one that only the original user may search
	if says.differs != "" {
		s.Differs = []string{says.differs}
	}
	return s, nil
}

// gone returns the step that waits until what the step of a probe waits for is not there, if the failure of the probe
// means just that.
func gone(s Step, call *shell.Call) (Step, error) {
	exact := call.Name == "test" && len(call.Args) == 2 && !slices.Contains(s.Args, "") && !hasSettings(s)
	if !exact {
		return s, &shell.Error{Pos: call.Pos, Word: "!", Why: "the failure of " + call.Name + " may mean something else than that it is gone"}
	}
	s.Args = []string{s.Args[0] + "#gone"}
	s.Why = "it is gone"
	return s, nil
}

func hasSettings(s Step) bool {
	return slices.ContainsFunc(s.Args, func(target string) bool { return slices.Contains([]byte(target), '#') })
}
