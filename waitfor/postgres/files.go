package postgres

import (
	"cmp"
	"path"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// passwordOf returns the password in the first matching line HOST:PORT:DATABASE:USER:PASSWORD of a password file's
// text, or "". A field may be *, for any value; a backslash escapes a colon or a backslash. Unlike libpq, it accepts a
// file that others may read: Secrets are mounted that way.
//
// https://www.postgresql.org/docs/current/libpq-pgpass.html
func passwordOf(text string, want ...string) string {
lines:
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, want := range want {
			field, rest, ok := passwordField(line, true)
			if !ok || field != want && !strings.HasPrefix(line, "*:") {
				continue lines
			}
			line = rest
		}
		password, _, _ := passwordField(line, false)
		return password
	}
	return ""
}

// passwordField returns the field before the next colon, without its backslashes, and the rest of the line. It is ok if
// there is a colon, or if no further field is needed.
func passwordField(line string, more bool) (field, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case line[i] == ':':
			return b.String(), line[i+1:], true
		default:
			b.WriteByte(line[i])
		}
	}
	return b.String(), "", !more
}

// readService reads the parameters of the service named by the target or the environment.
//
// https://www.postgresql.org/docs/current/libpq-pgservice.html
func (o *options) readService() error {
	name, err := o.value("PGSERVICE", "service")
	if name == "" || err != nil {
		return err
	}
	file, err := o.value("", "servicefile")
	if err != nil {
		return err
	}
	getenv := o.Getenv.Get
	var files []string
	switch file = cmp.Or(file, getenv("PGSERVICEFILE")); {
	case file != "":
		files = append(files, file)
	case getenv("HOME") != "":
		files = append(files, path.Join(getenv("HOME"), ".pg_service.conf"))
	}
	if directory := getenv("PGSYSCONFDIR"); directory != "" {
		files = append(files, path.Join(directory, "pg_service.conf"))
	}
	for _, file := range files {
		var text string
		if text, err = secret.Read(file); err == nil {
			if o.service = serviceOf(text, name); o.service != nil {
				return nil
			}
		}
	}
	if err != nil {
		return err
	}
	return failure.New(failure.Missing, "there is no such PostgreSQL service in %s", cmp.Or(strings.Join(files, ", "), "any file")).
		WithHint("PGSERVICEFILE names the file; in it, a service starts with a line [NAME]")
}

// serviceOf returns the parameters of a service, or nil if it is not in the text.
func serviceOf(text, name string) map[string]string {
	var service map[string]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			if service != nil {
				return service
			}
			if line == "["+name+"]" {
				service = map[string]string{}
			}
		case service != nil && ok:
			service[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return service
}
