// Package fakeapi is a fake Kubernetes API server: it keeps the objects that a test applies, serves gets, lists and
// watches of them, lets clients create and replace them, and forbids requests that the test denies. It follows our
// understanding of API servers; test/e2e uses real ones.
package fakeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"initbox/internal/kube"
)

// Server is an http.Handler. Its methods may be called at any time.
type Server struct {
	mu       sync.Mutex
	version  int
	objects  map[string]object // by resource, namespace and name
	events   []event
	more     chan struct{} // closed at the next event
	custom   []kube.Resource
	denied   map[string]bool // "verb resource"
	status   int             // the answer to every request, unless 0
	rules    []any           // what SelfSubjectRulesReviews answer
	requests []string
}

type object map[string]any

// event is a change of an object, with its old state, or nil, and its new one.
type event struct {
	resource string
	old, now object
	version  int
}

// User is the user that every client is authenticated as.
const User = "system:serviceaccount:default:myapp"

// New returns a server without objects.
func New() *Server {
	return &Server{objects: map[string]object{}, more: make(chan struct{}), denied: map[string]bool{}}
}

// Kubeconfig returns a kubeconfig for the server at the URL given.
func Kubeconfig(url string) string {
	return fmt.Sprintf(`{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], "clusters": [{"name": "c", "cluster": {"server": %q}}]}`, url)
}

// Define adds a kind that is not built in.
func (s *Server) Define(r kube.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.custom = append(s.custom, r)
}

// Apply creates the object, or replaces the one of its kind, namespace and name. A namespaced object without a
// namespace gets "default".
func (s *Server) Apply(document string) error {
	var o object
	if err := json.Unmarshal([]byte(document), &o); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	apiVersion, _ := o["apiVersion"].(string)
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	kind, _ := o["kind"].(string)
	r, ok := s.resource(strings.TrimSuffix(kind+"."+group, "."))
	if !ok {
		return fmt.Errorf("no such kind: %s of %q", kind, apiVersion)
	}
	if o["metadata"] == nil {
		o["metadata"] = map[string]any{}
	}
	meta := o["metadata"].(map[string]any)
	if r.Namespaced && meta["namespace"] == nil {
		meta["namespace"] = "default"
	}
	s.change(r, o)
	return nil
}

// Object returns the JSON of an object, such as secrets, default, db, or "" if it does not exist.
func (s *Server) Object(kind, namespace, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[strings.Join([]string{kind, namespace, name}, " ")]
	if o == nil {
		return ""
	}
	text, _ := json.Marshal(o)
	return string(text)
}

// Delete removes the object, such as jobs.batch, default, migrate.
func (s *Server) Delete(kind, namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.resource(kind)
	if !r.Namespaced {
		namespace = ""
	}
	key := strings.Join([]string{r.String(), namespace, name}, " ")
	old := s.objects[key]
	if old == nil {
		return fmt.Errorf("no such object: %s", key)
	}
	delete(s.objects, key)
	s.record(r, old, nil)
	return nil
}

// Deny forbids the verb on the resource, like missing RBAC rules, and ends the watches that are now forbidden.
func (s *Server) Deny(verb, resource string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[verb+" "+resource] = denied
	s.wake()
}

// Answer makes the server answer every request with the status, or normally if that is 0.
func (s *Server) Answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	s.wake()
}

// Grant sets the rules that SelfSubjectRulesReviews answer, in JSON: a list of objects with verbs and resources. It
// does not change what is denied.
func (s *Server) Grant(rules string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Unmarshal([]byte(rules), &s.rules)
}

// Requests returns the requests so far, one line each, such as "list jobs.batch in default
// fieldSelector=metadata.name=migrate".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) resource(name string) (kube.Resource, bool) {
	if r, ok := kube.Lookup(name); ok {
		return r, true
	}
	for _, r := range s.custom {
		if strings.EqualFold(name, r.String()) || strings.EqualFold(name, r.Kind+"."+r.Group) {
			return r, true
		}
	}
	return kube.Resource{}, false
}

// change stores the object under its name. The caller holds s.mu, also for the following methods.
func (s *Server) change(r kube.Resource, o object) {
	key := strings.Join([]string{r.String(), at(o, "metadata", "namespace"), at(o, "metadata", "name")}, " ")
	old := s.objects[key]
	s.objects[key] = o
	s.record(r, old, o)
}

func (s *Server) record(r kube.Resource, old, now object) {
	s.version++
	if now != nil {
		now["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	}
	s.events = append(s.events, event{r.String(), old, now, s.version})
	s.wake()
}

func (s *Server) wake() {
	close(s.more)
	s.more = make(chan struct{})
}

// ServeHTTP answers lists, watches, gets, creates, updates, discovery, and reviews of the client's own account.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, version := "", ""
	switch {
	case parts[0] == "api" && len(parts) > 2:
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		s.discovery(w, parts)
		return
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if strings.HasPrefix(parts[0], "selfsubject") {
		s.review(w, parts[0])
		return
	}
	s.mu.Lock()
	resource, ok := s.resource(strings.TrimSuffix(parts[0]+"."+group, "."))
	s.mu.Unlock()
	if !ok || resource.Version != version {
		refuse(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
		return
	}
	q := query{resource: resource, namespace: namespace, labels: r.URL.Query().Get("labelSelector"), fields: r.URL.Query().Get("fieldSelector")}
	verb := "list"
	switch {
	case r.Method == http.MethodPost:
		verb = "create"
	case r.Method == http.MethodPut:
		verb, q.fields = "update", "metadata.name="+parts[1]
	case len(parts) > 1:
		verb, q.fields = "get", "metadata.name="+parts[1]
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	}
	s.serve(w, r, verb, q)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, verb string, q query) {
	s.mu.Lock()
	line := verb + " " + q.String()
	s.requests = append(s.requests, line)
	status, denied := s.status, s.denied[verb+" "+q.resource.String()]
	found, version := s.find(q), s.version
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status != 0:
		refuse(w, status, strings.ReplaceAll(http.StatusText(status), " ", ""), "so the test wants it")
	case denied:
		refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s is forbidden: User %q cannot %s resource %q in API group %q in the namespace %q",
			q.resource, User, verb, q.resource.Name, q.resource.Group, q.namespace))
	case verb == "create" || verb == "update":
		s.write(w, r, verb, q)
	case verb == "watch":
		s.watch(w, r, q)
	case verb == "list":
		page, meta := onePage(r.URL.Query(), found, object{"resourceVersion": strconv.Itoa(version)})
		json.NewEncoder(w).Encode(object{"kind": q.resource.Kind + "List", "apiVersion": "v1", "metadata": meta, "items": page})
	case len(found) == 0:
		w.WriteHeader(http.StatusNotFound)
		json.NewEncoder(w).Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": http.StatusNotFound, "reason": "NotFound",
			"message": "not found", "details": object{"name": strings.TrimPrefix(q.fields, "metadata.name=")}})
	default:
		json.NewEncoder(w).Encode(found[0])
	}
}

// write creates or replaces the object in the request. What has the annotation refuse is refused by a message that
// repeats all of it, as an admission webhook may.
func (s *Server) write(w http.ResponseWriter, r *http.Request, verb string, q query) {
	text, err := io.ReadAll(r.Body)
	var o object
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil || at(o, "metadata", "name") == "" {
		refuse(w, http.StatusBadRequest, "BadRequest", "not an object with a name")
		return
	}
	if at(o, "metadata", "annotations", "refuse") != "" {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "a webhook does not like "+string(text))
		return
	}
	if q.namespace != "" {
		o["metadata"].(map[string]any)["namespace"] = q.namespace
	}
	q.fields = "metadata.name=" + at(o, "metadata", "name")
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.find(q)
	switch {
	case verb == "create" && len(found) > 0:
		refuse(w, http.StatusConflict, "AlreadyExists", "it already exists")
	case verb == "update" && len(found) == 0:
		refuse(w, http.StatusNotFound, "NotFound", "not found")
	case verb == "update" && at(o, "metadata", "resourceVersion") != at(found[0], "metadata", "resourceVersion"):
		refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
	default:
		s.change(q.resource, o)
		if verb == "create" {
			w.WriteHeader(http.StatusCreated)
		}
		json.NewEncoder(w).Encode(o)
	}
}

// review answers a SelfSubjectReview or a SelfSubjectRulesReview.
func (s *Server) review(w http.ResponseWriter, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := object{"userInfo": object{"username": User}}
	if resource == "selfsubjectrulesreviews" {
		status = object{"resourceRules": s.rules, "incomplete": false}
	}
	if s.denied["create "+resource] {
		refuse(w, http.StatusForbidden, "Forbidden", "no reviews")
		return
	}
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(object{"metadata": object{}, "status": status})
}

// onePage returns the objects of a page, and the metadata with the way to the next one. Unlike a real server, it
// forgets what the list was when it began.
func onePage(v url.Values, found []object, meta object) ([]object, object) {
	begin, _ := strconv.Atoi(v.Get("continue"))
	limit, _ := strconv.Atoi(v.Get("limit"))
	end := min(begin+limit, len(found))
	if limit == 0 || end == len(found) {
		return found[min(begin, len(found)):], meta
	}
	meta["continue"] = strconv.Itoa(end)
	return found[begin:end], meta
}

// watch sends the events since the requested version.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, q query) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	deadline := time.NewTimer(time.Duration(max(seconds, 1)) * time.Second)
	defer deadline.Stop()
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	flush()
	for {
		s.mu.Lock()
		more, events := s.more, s.events
		over := s.status != 0 || s.denied["watch "+q.resource.String()]
		s.mu.Unlock()
		if over {
			return
		}
		for _, e := range events {
			if e.version <= from {
				continue
			}
			from = e.version
			if kind, o := e.seen(q); kind != "" {
				json.NewEncoder(w).Encode(object{"type": kind, "object": o})
			}
		}
		flush()
		select {
		case <-more:
		case <-deadline.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// seen returns the event as a watch with the query sees it.
func (e event) seen(q query) (kind string, o object) {
	was, is := e.old != nil && q.matches(e.resource, e.old), e.now != nil && q.matches(e.resource, e.now)
	switch {
	case was && is:
		return "MODIFIED", e.now
	case is:
		return "ADDED", e.now
	case was:
		gone := maps.Clone(e.old)
		meta := maps.Clone(gone["metadata"].(map[string]any))
		meta["resourceVersion"] = strconv.Itoa(e.version)
		gone["metadata"] = meta
		return "DELETED", gone
	}
	return "", nil
}

func (s *Server) find(q query) []object {
	found := []object{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		resource, _, _ := strings.Cut(key, " ")
		if q.matches(resource, s.objects[key]) {
			found = append(found, s.objects[key])
		}
	}
	return found
}

// discovery answers with the kinds that are not built in, as servers before aggregated discovery did.
func (s *Server) discovery(w http.ResponseWriter, parts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var groups, resources []object
	for _, r := range s.custom {
		version := object{"groupVersion": r.Group + "/" + r.Version, "version": r.Version}
		group := object{"kind": "APIGroup", "name": r.Group, "versions": []object{version}, "preferredVersion": version}
		if len(parts) == 2 && parts[1] == r.Group {
			json.NewEncoder(w).Encode(group)
			return
		}
		groups = append(groups, group)
		if len(parts) == 3 && parts[1] == r.Group && parts[2] == r.Version {
			resources = append(resources, object{"name": r.Name, "singularName": strings.ToLower(r.Kind), "namespaced": r.Namespaced, "kind": r.Kind,
				"verbs": []string{"get", "list", "watch"}})
		}
	}
	switch {
	case s.status != 0 && parts[0] == "version":
		refuse(w, s.status, strings.ReplaceAll(http.StatusText(s.status), " ", ""), "so the test wants it")
	case len(parts) == 1 && parts[0] == "version":
		json.NewEncoder(w).Encode(object{"gitVersion": "v1.99.0"})
	case len(parts) == 1 && parts[0] == "api":
		json.NewEncoder(w).Encode(object{"kind": "APIVersions", "versions": []string{"v1"}})
	case len(parts) == 1 && parts[0] == "apis":
		json.NewEncoder(w).Encode(object{"kind": "APIGroupList", "groups": groups})
	case resources != nil:
		json.NewEncoder(w).Encode(object{"kind": "APIResourceList", "groupVersion": parts[1] + "/" + parts[2], "resources": resources})
	case len(parts) == 2 && parts[0] == "api":
		json.NewEncoder(w).Encode(object{"kind": "APIResourceList", "groupVersion": parts[1], "resources": []object{}})
	default:
		refuse(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

// query selects the objects of a request.
type query struct {
	resource       kube.Resource
	namespace      string
	labels, fields string
}

func (q query) String() string {
	text := q.resource.String()
	for _, part := range [][2]string{{" in ", q.namespace}, {" labelSelector=", q.labels}, {" fieldSelector=", q.fields}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return text
}

func (q query) matches(resource string, o object) bool {
	if resource != q.resource.String() || q.namespace != "" && at(o, "metadata", "namespace") != q.namespace {
		return false
	}
	for _, f := range requirements(q.fields) {
		path, want, _ := strings.Cut(f, "=")
		if at(o, strings.Split(path, ".")...) != want {
			return false
		}
	}
	for _, l := range requirements(q.labels) {
		if !labelled(o, l) {
			return false
		}
	}
	return true
}

// requirements splits a selector at the commas that are not in parentheses.
func requirements(selector string) []string {
	depth := 0
	return strings.FieldsFunc(selector, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	})
}

// labelled evaluates NAME, NAME=VALUE, NAME in (VALUE,…) and NAME notin (VALUE,…).
func labelled(o object, requirement string) bool {
	requirement = strings.TrimSpace(requirement)
	for _, operator := range []string{" in (", " notin ("} {
		if name, values, ok := strings.Cut(requirement, operator); ok {
			list := strings.Split(strings.ReplaceAll(strings.TrimSuffix(values, ")"), " ", ""), ",")
			return slices.Contains(list, at(o, "metadata", "labels", name)) == (operator == " in (")
		}
	}
	name, value, valued := strings.Cut(requirement, "=")
	have := at(o, "metadata", "labels", name)
	return valued && have == value || !valued && have != ""
}

// at returns the string at the path, or "".
func at(o object, path ...string) string {
	var v any = map[string]any(o)
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	text, _ := v.(string)
	return text
}
