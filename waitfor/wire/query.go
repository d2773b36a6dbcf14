package wire

import (
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
	"initbox/waitfor/target"
)

// QuerySetting is the setting of every kind of server that runs SQL.
var QuerySetting = target.Setting{Name: "query", Value: "SQL", Usage: "query whose first row must have a true first column: not NULL, 0, false or empty"}

// A QueryAnswer is the result of a query: the first column of the first row.
type QueryAnswer struct {
	Value string // as text
	Null  bool
	Row   bool // there is a row
}

// Judge returns nil if the answer means ready, otherwise why not.
func (a QueryAnswer) Judge() error {
	found := "no row"
	switch {
	case a.Row && a.Null:
		found = "NULL"
	case a.Row && truthy(a.Value):
		return nil
	case a.Row && strings.Trim(a.Value, "\x00 ") == "":
		found = "an empty string"
	case a.Row:
		found = secret.Quote(a.Value) // a word for false, so never a secret
	}
	return failure.New(failure.Unexpected, "the query returns %s", found).
		WithHint("it is ready when the first column of the first row is neither NULL nor 0 nor false nor empty")
}

// truthy reports whether a value of SQL, as text, is true: anything but false, 0 (of any type, including a bit) and the
// empty text.
func truthy(value string) bool {
	value = strings.ToLower(strings.Trim(value, "\x00 \t\r\n")) // a false BIT of MySQL is a zero byte
	switch value {
	case "", "f", "false":
		return false
	}
	n, err := strconv.ParseFloat(value, 64)
	return err != nil || n != 0
}
