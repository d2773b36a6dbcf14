package postgres

import (
	"cmp"
	"path"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// passwordOf looks for a password in the text of a password file: that of the first line
// HOST:PORT:DATABASE:USER:PASSWORD that fits, with * for any, and a backslash before a
// colon or a backslash. Who may read the file is not looked at: Secrets are mounted for all.
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

// passwordField returns what is before the next colon, and whether there is one.
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

// readService reads the parameters of the service that the target or the environment
// names.
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
	getenv := o.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	var files []string
	switch file = cmp.Or(file, getenv("PGSERVICEFILE")); {
	case file != "":
		files = append(files, file)
	case getenv("HOME") != "":
		files = append(files, path.Join(getenv("HOME"), ".pg_service.conf"))
	}
	if folder := getenv("PGSYSCONFDIR"); folder != "" {
		files = append(files, path.Join(folder, "pg_service.conf"))
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
	f := failure.New(failure.Missing, "there is no such PostgreSQL service in %s", cmp.Or(strings.Join(files, ", "), "any file"))
	f.Hint = "PGSERVICEFILE names the file, and [NAME] in it begins a service"
	return f
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
