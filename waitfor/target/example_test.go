package target_test

import (
	"context"
	"fmt"

	"initbox/waitfor/target"
)

// always is the check of a kind whose targets are always ready.
type always struct{ *target.Target }

func (always) Check(context.Context) error { return nil }

// A kind of target is an entry of a table. What all kinds have in common, such as references to secrets and settings in
// the fragment, is parsed here.
func Example() {
	kinds := target.Kinds{{
		Schemes:  []string{"always"},
		Usage:    "always://HOST",
		Settings: []target.Setting{{Name: "speed", Value: "WORD", Usage: "how fast"}},
		Without:  "path query",
		Parse:    func(t *target.Target) (target.Check, error) { return always{t}, nil },
	}}
	o := target.Options{Getenv: func(string) string { return "s3cr3t" }}
	for _, text := range []string{"always://app:${env:PASSWORD}@db#speed=high", "always://db/path", "always://db#sped=high"} {
		check, err := kinds.Parse(text, o)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(check, target.Of(check).Settings.Get("speed"), check.Check(context.Background()))
	}
	// Output:
	// always://db high <nil>
	// always://db/path: has a path, which always:// does not take, want always://HOST
	// always://db: setting 1 after # is unknown: sped; did you mean speed? valid settings are speed, gone
}
