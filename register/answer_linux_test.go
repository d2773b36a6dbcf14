package register

import (
	"errors"
	"os"
	"testing"

	"initbox/internal/mounts"
	"initbox/test/servers"
)

// The answer, which may be secret, is not written through a link that another program made in a volume.
func TestOutputInAVolume(t *testing.T) {
	vol, outside := servers.Volume(t)
	if err := os.Symlink(outside, vol+"/link"); err != nil {
		t.Fatal(err)
	}
	r := &Registration{o: Options{Output: vol + "/link/answer"}, answer: []byte("answer")}
	if err := r.writeAnswer(); !errors.As(err, new(*mounts.LinkError)) {
		t.Errorf("%v, want that the link is refused", err)
	}
	r.o.Follow = true
	if err := r.writeAnswer(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(outside + "/answer"); string(text) != "answer" {
		t.Errorf("%q, %v", text, err)
	}
}
