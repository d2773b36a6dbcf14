package waitfor

import (
	"initbox/internal/failure"
	"initbox/internal/secret"
)

// variable returns the value of an environment variable, or the content of the file
// that the variable NAME_FILE names, or "".
func (t *target) variable(name string) (string, error) {
	if name == "" || t.getenv == nil {
		return "", nil
	}
	if value := t.getenv(name); value != "" {
		return value, nil
	}
	if file := t.getenv(name + "_FILE"); file != "" {
		return secret.Read(file)
	}
	return "", nil
}

// token returns the content of the file that the setting names, or else what the
// environment's variable has. It is "" if there is neither.
func (t *target) token(setting, variable string) (string, error) {
	if !t.settings.on(setting) {
		return t.variable(variable)
	}
	name := t.settings.get(setting)
	token, err := secret.Read(name)
	switch {
	case err != nil:
		return "", err
	case token == "":
		return "", &failure.Failure{Class: failure.Missing, Text: "the token file " + name + " is empty", Hint: "is the Secret filled in?"}
	}
	return token, nil
}
