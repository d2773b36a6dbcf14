package jinja

import (
	"testing"

	"initbox/render/engine"
	"initbox/render/helpers"
)

// TestTablesAreDisjoint pins that no table of New replaces a filter or a function of another.
func TestTablesAreDisjoint(t *testing.T) {
	filters, ansible, functions := jinjaFilters(), ansibleFilters(), functions()
	for name := range helpers.Funcs(&engine.Data{}) {
		for what, table := range map[string]map[string]fn{"filter": filters, "filter of Ansible": ansible, "function": functions} {
			if _, both := table[name]; both {
				t.Errorf("the function %s hides a %s", name, what)
			}
		}
	}
	for name := range ansible {
		if _, both := filters[name]; both {
			t.Errorf("the filter %s is in two tables", name)
		}
	}
}
