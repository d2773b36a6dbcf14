package remote

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"

	"initbox/clone/pktline"
)

// only keeps all but some features from the client of a server of version 0.
func only(features string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				next.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Write(withFeatures(answer.Body.Bytes(), features))
		})
	}
}

// withFeatures replaces the features in an advertisement of version 0, except symref, without which HEAD
// names no branch.
func withFeatures(advertisement []byte, features string) []byte {
	var b []byte
	r := pktline.NewReader(bytes.NewReader(advertisement))
	for {
		kind, line, err := r.Next()
		switch {
		case err != nil:
			return b
		case kind == pktline.Flush:
			b = pktline.AppendFlush(b)
			continue
		}
		ref, has, found := strings.Cut(string(line), "\x00")
		if found {
			for feature := range strings.FieldsSeq(has) {
				if strings.HasPrefix(feature, "symref=") {
					features += " " + feature
				}
			}
			ref += "\x00" + features + "\n"
		}
		b = pktline.Append(b, ref)
	}
}
