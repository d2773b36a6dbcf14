package netrc

import "testing"

func TestFind(t *testing.T) {
	const text = `# machine commented.example.com login x password y
machine one.example.com
	login ann
	password "quoted \"pass\\word\" # all of it"
machine two.example.com login bob password #hash account ignored # comment
macdef init
	machine macro.example.com login no password no

machine "three.example.com" password alone
machine four.example.com login guest
default login anonymous password guest`
	for _, tt := range []struct {
		host, user string
		want       *Login
	}{
		{"one.example.com", "", &Login{"ann", `quoted "pass\word" # all of it`}},
		{"ONE.example.com", "ann", &Login{"ann", `quoted "pass\word" # all of it`}},
		{"one.example.com", "bob", nil},
		{"two.example.com", "", &Login{"bob", "#hash"}},
		{"three.example.com", "eve", &Login{"eve", "alone"}},
		{"four.example.com", "", &Login{"anonymous", "guest"}},
		{"macro.example.com", "", &Login{"anonymous", "guest"}},
		{"commented.example.com", "", &Login{"anonymous", "guest"}},
	} {
		got := Find(text, tt.host, tt.user)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s, %s: %v, want %v", tt.host, tt.user, got, tt.want)
		}
	}
}

// TestQuotes pins the words of quoted text.
func TestQuotes(t *testing.T) {
	for text, want := range map[string]Login{
		`default login "" password p`:        {"user", "p"},
		`default login l password "a b`:      {"l", "a b"},
		`default login l password "a\`:       {"l", `a\`},
		`default login "l\n\t\r" password p`: {"l\n\t\r", "p"},
	} {
		if got := Find(text, "host", map[bool]string{true: "user"}[want.User == "user"]); got == nil || *got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// FuzzFind pins that no text breaks the parser, and that it finds nothing that is not there.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"machine a login b password c", "default password \"a\\n\\", "macdef x\n\nmachine", "# a\n\"machine\" \"", "login a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range parse(text) {
			if len(e.machine)+len(e.User)+len(e.Password) > len(text) {
				t.Errorf("%+v of %q", e, text)
			}
		}
		if l := Find(text, "host", "user"); l != nil && (l.Password == "" || l.User != "user") {
			t.Errorf("%+v of %q", l, text)
		}
	})
}
