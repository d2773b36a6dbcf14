package gotemplate

import (
	"strings"

	"initbox/render/helpers"
)

// moreFuncs returns functions that gomplate and others have, and sprig does not.
func moreFuncs() map[string]any {
	return map[string]any{
		"cidrHost":    helpers.CIDRHost,
		"cidrNetmask": helpers.CIDRNetmask,
		"flatten":     helpers.Flatten,
		"fromCsv":     helpers.FromCSV,
		"jsonPath":    helpers.JSONPath,
		"parsePrefix": helpers.ParsePrefix,
		"pathMatch":   helpers.PathMatch,
		"pow":         helpers.Pow,
		"slug":        helpers.Slug,
		"splitN":      helpers.SplitN,
		"toBool":      helpers.ToBool,
		"trimLeft":    func(cutset, s string) string { return strings.TrimLeft(s, cutset) },
		"trimRight":   func(cutset, s string) string { return strings.TrimRight(s, cutset) },
	}
}
