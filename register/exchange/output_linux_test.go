package exchange

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
	o := Output{Name: vol + "/link/answer", Mode: 0o600}
	if err := o.Write([]byte("answer")); !errors.As(err, new(*mounts.LinkError)) {
		t.Errorf("%v, want that the link is refused", err)
	}
	o.Writer.Follow = true
	if err := o.Write([]byte("answer")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(outside + "/answer"); string(text) != "answer" {
		t.Errorf("%q, %v", text, err)
	}
}
