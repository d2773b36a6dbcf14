package sprig

import (
	"strconv"
	"time"
)

func dateFunctions() map[string]any {
	const day = "2006-01-02"
	return map[string]any{
		"now":              time.Now,
		"ago":              func(v any) string { return time.Since(moment(v)).Round(time.Second).String() },
		"date":             func(layout string, v any) string { return inZone(layout, v, "Local") },
		"dateInZone":       inZone,
		"date_in_zone":     inZone,
		"htmlDate":         func(v any) string { return inZone(day, v, "Local") },
		"htmlDateInZone":   func(v any, zone string) string { return inZone(day, v, zone) },
		"dateModify":       later,
		"date_modify":      later,
		"mustDateModify":   laterOrFail,
		"must_date_modify": laterOrFail,
		"toDate":           func(layout, s string) time.Time { t, _ := toDate(layout, s); return t },
		"mustToDate":       toDate,
		"unixEpoch":        func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
		"duration":         func(v any) string { return (time.Duration(seconds(v)) * time.Second).String() },
		"durationRound":    func(v any) string { return rounded(duration(v)) },
	}
}

// moment returns a time that is given as such, or in seconds since 1970, or now.
func moment(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v
	case int:
		return time.Unix(int64(v), 0)
	case int64:
		return time.Unix(v, 0)
	}
	return time.Now()
}

func inZone(layout string, v any, zone string) string {
	switch t := v.(type) {
	case *time.Time:
		v = *t
	case int32:
		v = int64(t)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		place = time.UTC
	}
	return moment(v).In(place).Format(layout)
}

func later(by string, t time.Time) time.Time {
	if changed, err := laterOrFail(by, t); err == nil {
		return changed
	}
	return t
}

func laterOrFail(by string, t time.Time) (time.Time, error) {
	d, err := time.ParseDuration(by)
	if err != nil {
		return time.Time{}, err
	}
	return t.Add(d), nil
}

func toDate(layout, s string) (time.Time, error) { return time.ParseInLocation(layout, s, time.Local) }

func seconds(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

// duration returns a duration that is given as a text or in nanoseconds, or the time since.
func duration(v any) time.Duration {
	switch v := v.(type) {
	case int64:
		return time.Duration(v)
	case time.Time:
		return time.Since(v)
	case string:
		d, _ := time.ParseDuration(v)
		return d
	}
	return 0
}

// rounded returns a duration, without its sign, in the largest unit of which there is more than one.
func rounded(d time.Duration) string {
	n := uint64(d)
	if d < 0 {
		n = -n
	}
	const day = 24 * time.Hour
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{365 * day, "y"}, {30 * day, "mo"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n > uint64(unit.size) {
			return strconv.FormatUint(n/uint64(unit.size), 10) + unit.name
		}
	}
	return "0s"
}
