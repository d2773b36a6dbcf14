package waitfor

import (
	"cmp"

	"initbox/internal/secret"
)

// login returns the user and the password as they are now: those in the target,
// else those of its settings, else those of the environment's variables. Both may
// be empty.
func (s server) login(userVariable, passwordVariable string) (user, password string, err error) {
	u, err := s.url.Expand()
	if err != nil {
		return "", "", err
	}
	query := u.Query()
	user = cmp.Or(u.User.Username(), query.Get("user"), s.settings.get("user"))
	password, set := u.User.Password()
	if !set && query.Has("password") { // as JDBC and libpq have it
		password, set = query.Get("password"), true
	}
	if user == "" {
		if user, err = s.variable(userVariable); err != nil {
			return "", "", err
		}
	}
	switch {
	case set:
	case s.settings.on("password-file"):
		password, err = secret.Read(s.settings.get("password-file"))
	default:
		password, err = s.variable(passwordVariable)
	}
	return user, password, err
}
