package target

import (
	"slices"

	"initbox/internal/setting"
)

// Setting is an option of a kind of target: what to expect of the server, or how to ask it. A flag of the same name
// applies to every target of the kind.
type Setting = setting.Setting

// Settings are the values by name of setting.
type Settings = setting.Settings

// Common are the settings that every kind of target takes.
var Common = []Setting{
	{Name: "gone", Usage: "wait until the target no longer answers"},
}

// all returns the settings that the kind takes.
func (k *Kind) all() setting.List { return slices.Concat(k.Settings, Common) }

// Names returns the names of the settings that the kind takes.
func (k *Kind) Names() []string { return k.all().Names() }
