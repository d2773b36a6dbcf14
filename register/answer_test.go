package register

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/httpclient"
)

// TestAnswerIsOfNoUse pins the errors of an answer that lacks the wanted value, and of one that cannot be written.
func TestAnswerIsOfNoUse(t *testing.T) {
	t.Parallel()
	r, err := Open(Options{
		Server: Server{URL: "http://registry:1"}, Protocol: Protocol{Preset: "etcd"}, Entry: Entry{ID: "web-0"},
		Extract: "/id", Output: filepath.Join(t.TempDir(), "missing", "answer"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.extract(&httpclient.Answer{Body: []byte(`{"id": "7"}`)}); string(got) != "7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.extract(&httpclient.Answer{Body: []byte("{}")}); err == nil || !strings.HasSuffix(err.Error(), "but the answer has no /id") {
		t.Errorf("no id in the answer: %v", err)
	}
	for _, err := range []error{r.output().Check(), r.output().Write(nil)} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "write the answer to "+r.o.Output) {
			t.Errorf("no directory for the answer: %v", err)
		}
	}
	r.o.Output = ""
	if err := errors.Join(r.output().Check(), r.output().Write(nil)); err != nil {
		t.Errorf("no answer is wanted: %v", err)
	}
}
