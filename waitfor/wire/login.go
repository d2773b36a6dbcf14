package wire

import (
	"cmp"

	"initbox/internal/secret"
)

// Login returns the current user and password: from the target, otherwise from its settings, otherwise from the
// environment variables. Both may be empty.
func Login(s Server, userVariable, passwordVariable string) (user, password string, err error) {
	u, err := s.URL.Expand()
	if err != nil {
		return "", "", err
	}
	query := u.Query()
	user = cmp.Or(u.User.Username(), query.Get("user"), s.Settings.Get("user"))
	password, set := u.User.Password()
	if !set && query.Has("password") { // as in JDBC and libpq
		password, set = query.Get("password"), true
	}
	if user == "" {
		if user, err = s.Getenv.Variable(userVariable); err != nil {
			return "", "", err
		}
	}
	switch {
	case set:
	case s.Settings.On("password-file"):
		password, err = secret.Read(s.Settings.Get("password-file"))
	default:
		password, err = s.Getenv.Variable(passwordVariable)
	}
	return user, password, err
}
