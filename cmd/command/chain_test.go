package command

import "testing"

// TestChecksBeforeWork pins that the command line of every subcommand can be checked before an earlier step has run.
func TestChecksBeforeWork(t *testing.T) {
	for _, s := range subcommands() {
		e := new(env)
		if e.newApp(s.name); !e.checked && s.name != rbacName {
			t.Errorf("%s: its Action is not one of env.action, so a mistake in it is only found when the steps before have run", s.name)
		}
	}
}
