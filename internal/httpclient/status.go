package httpclient

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Statuses are ranges of HTTP statuses.
type Statuses []statusRange

type statusRange struct{ low, high int }

// ParseStatuses reads a list such as 200,401-403, or any, which is 100-599.
func ParseStatuses(list string) (Statuses, error) {
	var s Statuses
	for _, part := range strings.Split(list, ",") {
		if strings.TrimSpace(part) == "any" {
			part = "100-599"
		}
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		l, err1 := strconv.Atoi(low)
		h, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || l < 100 || h > 999 || h < l {
			return nil, errors.New("want numbers and ranges from 100 to 999, as in 200,401-403, or any")
		}
		s = append(s, statusRange{l, h})
	}
	return s, nil
}

// Has reports whether the status is in one of the ranges.
func (s Statuses) Has(status int) bool {
	return slices.ContainsFunc(s, func(r statusRange) bool { return r.low <= status && status <= r.high })
}
