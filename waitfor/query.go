package waitfor

import (
	"strconv"
	"strings"

	"initbox/internal/failure"
)

// querySetting is that of every kind of server that runs SQL.
var querySetting = Setting{Name: "query", Value: "SQL", Usage: "query of which the first column of the first row has to be true: not NULL, 0, false or empty"}

// A queryAnswer is what a query gives: the first column of the first row.
type queryAnswer struct {
	value string // as text
	null  bool
	row   bool // there is one
}

// judge returns why the answer is not ready, or nil. The secrets are not to be shown.
func (a queryAnswer) judge(secrets ...string) error {
	found := "no row"
	switch {
	case a.row && a.null:
		found = "NULL"
	case a.row && truthy(a.value):
		return nil
	case a.row && strings.Trim(a.value, "\x00 ") == "":
		found = "nothing but an empty text"
	case a.row:
		found = quote(a.value, secrets...)
	}
	f := failure.New(failure.Unexpected, "the query gives %s", found)
	f.Hint = "it is ready when the first column of the first row is neither NULL nor 0 nor false nor empty"
	return f
}

// truthy reports whether a value of SQL, as text, is one that a query is ready with:
// any but false, 0 (of whatever type, a bit too) and the empty text.
func truthy(value string) bool {
	value = strings.ToLower(strings.Trim(value, "\x00 \t\r\n")) // a BIT of MySQL is a byte 0
	switch value {
	case "", "f", "false":
		return false
	}
	n, err := strconv.ParseFloat(value, 64)
	return err != nil || n != 0
}
