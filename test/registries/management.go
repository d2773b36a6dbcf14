package registries

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Management is a minimal server like the one that the Kubernetes documentation's example announces Pods to
// (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/):
//
//	POST or PUT /register    a form or JSON with "instance", any fields besides; 201 {"id": …}
//	GET /register?instance=  200 with what is registered under that name, 404 if nothing is
//	GET /instances/ID        200 or 404
//	DELETE /instances/ID     204 or 404
//	DELETE /register?instance=  204, removes all of that name, or 404
//
// A POST adds an entry, so that a repeated one creates a duplicate; with the Idempotency-Key of an earlier POST, its
// answer is repeated. A PUT replaces the entry with the name. An entry is the name, and has no lease.
type Management struct {
	// Unique answers 409 to a POST of an existing name.
	Unique bool

	requests atomic.Int64
	mu       sync.Mutex
	last     int
	entries  []managed
	keys     map[string]string // the ID in the answer, by Idempotency-Key
}

type managed struct {
	id     string
	fields map[string]any
}

func (m managed) name() string { return fmt.Sprint(m.fields["instance"]) }

func (*Management) Base() string { return "" }

func (*Management) Expire() {}

func (m *Management) Requests() int { return int(m.requests.Load()) }

func (m *Management) Entries() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for _, e := range m.entries {
		names = append(names, e.name())
	}
	slices.Sort(names)
	return names
}

// Fields returns the fields of the first entry with the name, or nil.
func (m *Management) Fields(name string) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.entries, named(name)); i >= 0 {
		return m.entries[i].fields
	}
	return nil
}

func (m *Management) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries, m.keys = nil, nil
}

func named(name string) func(managed) bool { return func(e managed) bool { return e.name() == name } }

func (m *Management) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	path, err := segments(r.URL.EscapedPath())
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, "bad path", http.StatusBadRequest)
	case len(path) == 1 && path[0] == "register" && (r.Method == "POST" || r.Method == "PUT"):
		m.register(w, r)
	case len(path) == 1 && path[0] == "register":
		m.matching(w, r, named(r.FormValue("instance")))
	case len(path) == 2 && path[0] == "instances":
		m.matching(w, r, func(e managed) bool { return e.id == path[1] })
	default:
		http.NotFound(w, r)
	}
}

func (m *Management) register(w http.ResponseWriter, r *http.Request) {
	fields, err := fieldsOf(r)
	if err != nil || fields["instance"] == nil || fields["instance"] == "" {
		http.Error(w, "no instance", http.StatusBadRequest)
		return
	}
	e := managed{fields: fields}
	key := r.Header.Get("Idempotency-Key")
	id, repeated := m.keys[key]
	there := slices.IndexFunc(m.entries, named(e.name()))
	switch {
	case key != "" && repeated:
		answer(w, http.StatusCreated, map[string]string{"id": id})
		return
	case r.Method == "PUT" && there >= 0:
		e.id = m.entries[there].id
		m.entries[there] = e
		answer(w, http.StatusOK, map[string]string{"id": e.id})
		return
	case m.Unique && there >= 0:
		answer(w, http.StatusConflict, map[string]string{"error": "it is registered already", "id": m.entries[there].id})
		return
	}
	m.last++
	e.id = strconv.Itoa(m.last)
	m.entries = append(m.entries, e)
	if key != "" {
		if m.keys == nil {
			m.keys = map[string]string{}
		}
		m.keys[key] = e.id
	}
	w.Header().Set("Location", "/instances/"+e.id)
	answer(w, http.StatusCreated, map[string]string{"id": e.id})
}

// fieldsOf reads a JSON body or, regardless of its declared type, a form.
func fieldsOf(r *http.Request) (map[string]any, error) {
	fields := map[string]any{}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		return fields, decode(r, &fields)
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	for name := range r.PostForm {
		fields[name] = r.PostForm.Get(name)
	}
	return fields, nil
}

// matching returns the matching entries, or removes them.
func (m *Management) matching(w http.ResponseWriter, r *http.Request, match func(managed) bool) {
	i := slices.IndexFunc(m.entries, match)
	switch {
	case i < 0:
		http.Error(w, "not registered", http.StatusNotFound)
	case r.Method == "GET":
		answer(w, http.StatusOK, m.entries[i].fields)
	case r.Method == "DELETE":
		m.entries = slices.DeleteFunc(m.entries, match)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
