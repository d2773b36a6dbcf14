package registries

import (
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
)

// SpringBootAdmin is a Spring Boot Admin server (https://docs.spring-boot-admin.com/; statuses as in its
// InstancesController, ids as in its HashingInstanceUrlIdGenerator: of the health URL alone). The real server polls the
// health URLs, which this one does not, and has no leases: an instance that does not answer is shown as offline and
// remains. An entry is the instance's ID.
type SpringBootAdmin struct{ list[adminInstance] }

type adminInstance struct {
	registration registration
	gone         bool // deregistered, and kept in the history
}

type registration struct {
	Name          string            `json:"name"`
	ManagementURL string            `json:"managementUrl,omitempty"`
	HealthURL     string            `json:"healthUrl"`
	ServiceURL    string            `json:"serviceUrl,omitempty"`
	Metadata      map[string]string `json:"metadata"`
}

func (*SpringBootAdmin) Base() string { return "" }

func (*SpringBootAdmin) Expire() {}

// Entries omits removed instances, whose history the server keeps.
func (s *SpringBootAdmin) Entries() []string {
	ids := []string{}
	for _, id := range s.list.Entries() {
		if i, ok := s.get(id); ok && !i.gone {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *SpringBootAdmin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	path, err := segments(r.URL.EscapedPath())
	switch {
	case err != nil || path[0] != "instances" || len(path) > 2:
		http.NotFound(w, r)
	case len(path) == 1 && r.Method == "POST":
		s.register(w, r)
	case len(path) == 1 && r.Method == "GET":
		instances := []any{}
		for _, id := range s.Entries() {
			if i, ok := s.get(id); ok {
				instances = append(instances, i.shown(id))
			}
		}
		answer(w, http.StatusOK, instances)
	case len(path) == 2:
		s.instance(w, r, path[1])
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *SpringBootAdmin) register(w http.ResponseWriter, r *http.Request) {
	if !isJSON(r) {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	var sent registration
	if decode(r, &sent) != nil || !sent.valid() {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	sum := sha1.Sum([]byte(sent.HealthURL))
	id := hex.EncodeToString(sum[:])[:12]
	s.put(id, adminInstance{registration: sent})
	w.Header().Set("Location", "http://"+r.Host+"/instances/"+id)
	answer(w, http.StatusCreated, map[string]string{"id": id})
}

// valid requires a name, a health URL, and valid URLs.
func (r *registration) valid() bool {
	absolute := func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	}
	return strings.TrimSpace(r.Name) != "" && absolute(r.HealthURL) &&
		(r.ManagementURL == "" || absolute(r.ManagementURL)) && (r.ServiceURL == "" || absolute(r.ServiceURL))
}

func (s *SpringBootAdmin) instance(w http.ResponseWriter, r *http.Request, id string) {
	i, known := s.get(id)
	switch {
	case !known || r.Method == "GET" && i.gone:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == "GET":
		answer(w, http.StatusOK, i.shown(id))
	case r.Method == "DELETE": // also of a removed one, which is in the history
		i.gone = true
		s.put(id, i)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (i *adminInstance) shown(id string) any {
	return map[string]any{"id": id, "registered": true, "registration": i.registration}
}
