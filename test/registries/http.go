package registries

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// segments returns the unescaped parts of an escaped path: %2F does not separate them.
func segments(path string) ([]string, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		var err error
		if parts[i], err = url.PathUnescape(p); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func decode(r *http.Request, into any) error { return json.NewDecoder(r.Body).Decode(into) }

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
