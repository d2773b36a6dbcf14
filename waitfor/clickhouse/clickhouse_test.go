package clickhouse

import (
	"testing"

	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

func Fuzz(f *testing.F) {
	c := kindtest.Fuzzed[check](f, kinds, "clickhouse://h")
	for _, body := range []string{
		"Code: 516. DB::Exception: app: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED) (version 24.8.4.13 (official build))\n",
		"Code: 81, e.displayText() = DB::Exception: Database hUnter2 doesn't exist (version 20.3.8.53)\n",
		"Code: ", "Code: 99999999999999999999. x", "Code: 1", `{"error":"x"}`, "",
	} {
		f.Add(uint16(403), []byte(body))
		f.Add(uint16(200), []byte(body))
	}
	f.Fuzz(func(t *testing.T, status uint16, body []byte) {
		err := c.refused(kindtest.Answer(status, body))
		if err == nil {
			t.Errorf("%q is not refused", body)
		}
		kindtest.RequireQuiet(t, err)
	})
}
