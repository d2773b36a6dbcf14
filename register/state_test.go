package register

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadState pins which files are states, and that another file is not overwritten.
func TestReadState(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"version": 1, "protocol": {"preset": "etcd"}, "phase": "registered"}`: true,
		`{"version": 2, "protocol": {"preset": "etcd"}, "phase": "registered"}`: false,
		`{"version": 1, "protocol": {"preset": "none"}, "phase": "registered"}`: false,
		`{"version": 1, "phase": "registered"}`:                                 false,
		`version: 1`:                                                            false,
		``:                                                                      false,
	} {
		name := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := readState(name)
		if ok && (err != nil || st == nil || st.Phase != registered) {
			t.Errorf("%s: %+v, %v", text, st, err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), "is not a state file")) {
			t.Errorf("%s: %+v, %v", text, st, err)
		}
		if err := (&state{Version: stateVersion}).writeUnlessLeft(name); (err == nil) != ok {
			t.Errorf("%s: written: %v", text, err)
		}
	}
}

// TestStateIsADirectory pins that an unreadable state is not reported as another kind of file.
func TestStateIsADirectory(t *testing.T) {
	t.Parallel()
	if st, err := readState(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "read the state: ") {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestNoState pins that a registration without a state file is kept alive without one.
func TestNoState(t *testing.T) {
	t.Chdir(t.TempDir())
	st, err := readState("")
	if st != nil || err != nil {
		t.Errorf("%+v, %v", st, err)
	}
	if err := new(state).writeUnlessLeft(""); err != nil {
		t.Error(err)
	}
	if st, err := markLeft(t.Context(), ""); st != nil || err != nil {
		t.Errorf("%+v, %v", st, err)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestErrLeftIsNoFailure pins that another process's deregistration is told from a disk that cannot be read.
func TestErrLeftIsNoFailure(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "state")
	st := &state{Version: stateVersion, Protocol: Protocol{Preset: "etcd"}, Phase: left}
	if err := st.write(name); err != nil {
		t.Fatal(err)
	}
	if err := st.writeUnlessLeft(name); !errors.Is(err, errLeft) {
		t.Errorf("%v, want %v", err, errLeft)
	}
	if err := st.writeUnlessLeft(filepath.Join(name, "state")); err == nil || errors.Is(err, errLeft) {
		t.Errorf("%v, want that a file is not a directory", err)
	}
	if err := st.write(filepath.Join(name, "state")); err == nil || !strings.HasPrefix(err.Error(), "write the state to ") {
		t.Errorf("%v, want that a file is not a directory", err)
	}
}
