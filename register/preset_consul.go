package register

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"initbox/internal/httpclient"
)

// consulService is the service to register with an agent, with a check that
// heartbeats pass and one that asks the health URL,
// https://developer.hashicorp.com/consul/api-docs/agent/service#register-service.
func consulService(e *Entry) any {
	var checks []any
	if held(e) {
		checks = append(checks, map[string]any{
			"CheckID": "service:" + e.ID, "Name": "Heartbeat", "TTL": e.TTL.String(), "Status": "passing",
			// A Pod that was only cut off for so long registers again.
			"DeregisterCriticalServiceAfter": max(3*e.TTL, consulReap).String(),
		})
	}
	if e.Health != "" {
		// No process would register again what this check deregistered.
		checks = append(checks, map[string]any{
			"CheckID": "service:" + e.ID + ":health", "Name": "Health", "HTTP": e.Health, "Interval": healthEvery, "Timeout": healthTimeout,
		})
	}
	return with(e.Extra, map[string]any{
		"ID": e.ID, "Name": e.Service, "Address": e.Address, "Port": e.Port, "Tags": e.Tags,
		"Meta": e.metadata(map[string]string{"secure": e.secure()}), "Checks": checks,
	})
}

// consulReap is the shortest time after which Consul deregisters what is critical.
const consulReap = time.Minute

// How a registry is to query a health URL, where it can be configured.
const (
	healthEvery   = "10s"
	healthTimeout = "5s"
)

// consulNode is the node to register with the catalog, with its one service,
// https://developer.hashicorp.com/consul/api-docs/catalog#register-entity. The
// check and external-node are for consul-esm.
func consulNode(e *Entry) any {
	meta := map[string]string{"external-node": "true", "external-probe": "false"}
	var checks []any
	if e.Health != "" {
		checks = append(checks, map[string]any{
			"CheckID": "service:" + e.ID + ":health", "Name": "Health", "ServiceID": e.ID, "Status": "passing",
			"Definition": map[string]any{"HTTP": e.Health, "Interval": healthEvery, "Timeout": healthTimeout},
		})
	}
	return with(e.Extra, map[string]any{
		"Node": e.ID, "Address": e.Address, "NodeMeta": meta,
		"Service": with(nil, map[string]any{
			"ID": e.ID, "Service": e.Service, "Address": e.Address, "Port": e.Port, "Tags": e.Tags,
			"Meta": e.metadata(map[string]string{"secure": e.secure()}),
		}),
		"Checks": checks,
	})
}

// consulKnows judges what an agent says of a service or a check. Agents before 1.11.2 say of an unknown one, by 500 and
// these words, that it is unknown; and a check without a TTL is not the one that was registered with this entry.
func consulKnows(_ *Entry, a *httpclient.Answer) finding {
	if a.Status == http.StatusInternalServerError {
		for _, words := range []string{"nknown check", "nknown service", "does not have associated TTL"} {
			if bytes.Contains(a.Body, []byte(words)) {
				return gone
			}
		}
	}
	return byStatus(a)
}

// consulTakes judges the answer of the catalog to a registration: it reports an invalid one by 500, too.
func consulTakes(_ *Entry, a *httpclient.Answer) finding {
	for _, words := range []string{"failed inserting service", "Must provide", "Invalid Service Meta"} {
		if a.Status == http.StatusInternalServerError && bytes.Contains(a.Body, []byte(words)) {
			return refused
		}
	}
	return byStatus(a)
}

// consulHasService judges what the catalog says of a node: null of an unknown one.
func consulHasService(_ *Entry, a *httpclient.Answer) finding {
	found := byStatus(a)
	if found != there {
		return found
	}
	var node *struct{ Services map[string]any }
	switch err := json.Unmarshal(a.Body, &node); {
	case err != nil:
		return refused
	case node == nil || len(node.Services) == 0:
		return gone
	}
	return there
}
