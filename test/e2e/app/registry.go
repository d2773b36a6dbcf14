package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// registry is a small server that Pods register with, as simple as many are: every POST adds an entry, so that a Pod
// that registers twice has a duplicate. Entries are removed by the Pod's name, which is the instance.
//
//	POST   /register          a form with instance and ip
//	GET    /nodes/INSTANCE    404 if it is not registered; PUT, a heartbeat, likewise
//	DELETE /nodes/INSTANCE    takes all its entries away
//	GET    /app/WHAT/INSTANCE what its application tells: started, stopped
type registry struct {
	mu       sync.Mutex
	entries  map[string][]string // the registered addresses, by instance
	instants *json.Encoder
}

// instant is an event, printed as a line on stdout.
type instant struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"` // register, ask, alive, deregister; started, stopped
	Instance string    `json:"instance"`
	IP       string    `json:"ip,omitempty"`
	Entries  []string  `json:"entries"` // the addresses of the instance, after it
	All      int       `json:"all"`     // entries of all instances, after it
	Status   int       `json:"status"`  // of the answer
}

func newRegistry() http.Handler {
	r := &registry{entries: map[string][]string{}, instants: json.NewEncoder(os.Stdout)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, q *http.Request) {
		instance, ip := q.PostFormValue("instance"), q.PostFormValue("ip")
		r.handle(w, instant{What: "register", Instance: instance, IP: ip}, func() int {
			if instance == "" || ip == "" {
				return http.StatusBadRequest
			}
			r.entries[instance] = append(r.entries[instance], ip)
			return http.StatusCreated
		})
	})
	for pattern, what := range map[string]string{"GET /nodes/{instance}": "ask", "PUT /nodes/{instance}": "alive", "DELETE /nodes/{instance}": "deregister"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			instance := q.PathValue("instance")
			r.handle(w, instant{What: what, Instance: instance}, func() int {
				if len(r.entries[instance]) == 0 {
					return http.StatusNotFound
				}
				if what == "deregister" {
					delete(r.entries, instance)
				}
				return http.StatusOK
			})
		})
	}
	mux.HandleFunc("GET /app/{what}/{instance}", func(w http.ResponseWriter, q *http.Request) {
		r.handle(w, instant{What: q.PathValue("what"), Instance: q.PathValue("instance")}, func() int { return http.StatusOK })
	})
	return mux
}

// handle serves one request at a time, so that the lines are in the order of the events.
func (r *registry) handle(w http.ResponseWriter, i instant, do func() (status int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i.Status = do()
	i.At, i.Entries = time.Now(), slices.Clone(r.entries[i.Instance])
	for _, entries := range r.entries {
		i.All += len(entries)
	}
	w.WriteHeader(i.Status)
	r.instants.Encode(i)
}
