package wire

import "testing"

func TestTruthy(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "0": false, "0.0": false, "-0": false, "00": false, "f": false, "false": false, "FALSE": false, "\x00": false, " ": false,
		"1": true, "t": true, "true": true, "-1": true, "0.5": true, "no": true, "x": true, "\x01": true, "20240101_init": true, "NaN": true,
	} {
		if truthy(value) != want {
			t.Errorf("%q is %t", value, !want)
		}
	}
}
