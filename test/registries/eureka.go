package registries

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// Eureka is a registry as served by Spring Cloud, below /eureka, and by Netflix's server, below /eureka/v2
// (https://github.com/Netflix/eureka/wiki/Eureka-REST-operations; statuses and texts as in its ApplicationResource and
// InstanceResource). An entry is APP/INSTANCE, and every entry has a lease.
type Eureka struct{ list[eurekaInstance] }

// eurekaInstance is the part of an instance that the server requires.
type eurekaInstance struct {
	InstanceID     string      `json:"instanceId"`
	HostName       string      `json:"hostName"`
	App            string      `json:"app"`
	IPAddr         string      `json:"ipAddr"`
	Status         string      `json:"status"`
	Port           *eurekaPort `json:"port"`
	SecurePort     *eurekaPort `json:"securePort"`
	DataCenterInfo *struct {
		Name string `json:"name"`
	} `json:"dataCenterInfo"`
	LeaseInfo *struct {
		Renewal  int `json:"renewalIntervalInSecs"`
		Duration int `json:"durationInSecs"`
	} `json:"leaseInfo"`

	sent json.RawMessage // as the client sent it, for other clients
}

// eurekaPort is an attribute and a text of the server's XML, converted to JSON.
type eurekaPort struct {
	Number  json.RawMessage `json:"$"` // a number, or a string with one
	Enabled json.RawMessage `json:"@enabled"`
}

func (*Eureka) Base() string { return "/eureka" }

func (e *Eureka) Expire() { e.expire(func(eurekaInstance) bool { return true }) }

func (e *Eureka) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.requests.Add(1)
	rest, ok := strings.CutPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/eureka/v2/"), "/eureka/")
	if _, v2 := strings.CutPrefix(r.URL.EscapedPath(), "/eureka/v2/"); !ok && !v2 {
		http.NotFound(w, r)
		return
	}
	path, err := segments(rest)
	switch {
	case err != nil || len(path) == 0 || path[0] != "apps":
		http.NotFound(w, r)
	case len(path) == 1 && r.Method == "GET":
		e.all(w)
	case len(path) == 2 && r.Method == "POST":
		e.register(w, r, strings.ToUpper(path[1]))
	case len(path) == 3:
		e.instance(w, r, strings.ToUpper(path[1])+"/"+path[2])
	default:
		http.Error(w, "", http.StatusMethodNotAllowed)
	}
}

func (e *Eureka) register(w http.ResponseWriter, r *http.Request, app string) {
	if !isJSON(r) {
		http.Error(w, "", http.StatusUnsupportedMediaType)
		return
	}
	var body struct {
		Instance json.RawMessage `json:"instance"`
	}
	i := eurekaInstance{}
	if err := decode(r, &body); err != nil || json.Unmarshal(body.Instance, &i) != nil {
		http.Error(w, "not an instance", http.StatusBadRequest)
		return
	}
	i.sent = body.Instance
	if i.InstanceID == "" {
		i.InstanceID = i.HostName
	}
	if wrong := i.wrong(app); wrong != "" {
		http.Error(w, wrong, http.StatusBadRequest)
		return
	}
	e.put(app+"/"+i.InstanceID, i)
	w.WriteHeader(http.StatusNoContent)
}

// wrong returns what is wrong with an instance that was sent to the application, or "".
func (i *eurekaInstance) wrong(app string) string {
	switch {
	case i.InstanceID == "":
		return "Missing instanceId"
	case i.HostName == "":
		return "Missing hostname"
	case i.IPAddr == "":
		return "Missing ip address"
	case i.App == "":
		return "Missing appName"
	case strings.ToUpper(i.App) != app:
		return fmt.Sprintf("Mismatched appName, expecting %s but was %s", app, strings.ToUpper(i.App))
	case i.DataCenterInfo == nil:
		return "Missing dataCenterInfo"
	case i.DataCenterInfo.Name == "":
		return "Missing dataCenterInfo Name"
	}
	return ""
}

// instance handles a heartbeat, a deregistration or a query.
func (e *Eureka) instance(w http.ResponseWriter, r *http.Request, id string) {
	i, known := e.get(id)
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == "PUT":
	case r.Method == "DELETE":
		e.drop(id)
	case r.Method == "GET" && !strings.Contains(r.Header.Get("Accept"), "json"):
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, "<instance><instanceId>%s</instanceId></instance>", i.InstanceID)
	case r.Method == "GET":
		answer(w, http.StatusOK, map[string]any{"instance": i.sent})
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (e *Eureka) all(w http.ResponseWriter) {
	apps := map[string][]json.RawMessage{}
	for _, id := range e.Entries() {
		if i, ok := e.get(id); ok {
			app, _, _ := strings.Cut(id, "/")
			apps[app] = append(apps[app], i.sent)
		}
	}
	listed := []any{}
	for name, instances := range apps {
		listed = append(listed, map[string]any{"name": name, "instance": instances})
	}
	answer(w, http.StatusOK, map[string]any{"applications": map[string]any{"application": listed}})
}

// isJSON reports whether the request declares a JSON body.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
