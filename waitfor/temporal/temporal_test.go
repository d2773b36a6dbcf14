package temporal

import (
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
	"initbox/waitfor/wire/rpc"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

func Fuzz(f *testing.F) {
	c := kindtest.Fuzzed[check](f, kinds, "temporal://h#namespace=shop&task-queue=orders")
	f.Add("0", "", rpc.Frame(rpc.AppendText(nil, 1, string(rpc.AppendNumber(rpc.AppendText(nil, 1, "shop"), 2, 1)))))
	f.Add("0", "", rpc.Frame(rpc.AppendText(nil, 1, string(rpc.AppendNumber(nil, 2, 9)))))
	f.Add("0", "", rpc.Frame(nil))
	f.Add("0", "", []byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Add("5", "Namespace hUnter2 is not found.", []byte(nil))
	f.Add("7", "Request unauthorized.", []byte(nil))
	f.Fuzz(func(t *testing.T, status, words string, frame []byte) {
		a := rpc.Answer{Status: status, Words: words, Frame: frame}
		for _, message := range []func(rpc.Answer) error{c.polled, c.registered, rpc.Answer.Serving} {
			err := c.judge(a, nil, []string{"hUnter2"}, message)
			if err == nil && (status != "0" || len(frame) < 7) {
				t.Errorf("%q, %x is ready", status, frame)
			}
			kindtest.RequireQuiet(t, err)
		}
	})
}
