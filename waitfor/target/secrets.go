package target

import (
	"initbox/internal/failure"
	"initbox/internal/secret"
)

// Env looks up environment variables; nil has none.
type Env func(name string) string

// Get returns the value of an environment variable, or "".
func (getenv Env) Get(name string) string {
	if getenv == nil {
		return ""
	}
	return getenv(name)
}

// Variable returns the value of an environment variable, or the content of the file that the variable NAME_FILE names,
// or "".
func (getenv Env) Variable(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if value := getenv.Get(name); value != "" {
		return value, nil
	}
	if file := getenv.Get(name + "_FILE"); file != "" {
		return secret.Read(file)
	}
	return "", nil
}

// Token returns the content of the file that the setting names, or else the value of the environment variable. It
// returns "" if there is neither.
func Token(t *Target, setting, variable string) (string, error) {
	if !t.Settings.On(setting) {
		return t.Getenv.Variable(variable)
	}
	name := t.Settings.Get(setting)
	token, err := secret.Read(name)
	switch {
	case err != nil:
		return "", err
	case token == "":
		return "", &failure.Failure{Class: failure.Missing, Text: "the token file " + name + " is empty", Hint: "is the Secret filled in?"}
	}
	return token, nil
}
