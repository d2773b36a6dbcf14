package register

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// What a namespace, a group or a cluster have to say must be said in every call:
// so they stand in the query of the server's URL.
const nacosQuery = "serviceName={service}&ip={address}&port={port}"

var nacosOwn = []string{"serviceName", "ip", "port", "ephemeral", "namespaceId", "groupName", "clusterName"}

// nacosInstance is the instance to register with Nacos, https://nacos.io/en/docs/open-api and, for 3.x,
// https://nacos.io/en/docs/v3.2/manual/user/open-api.
func nacosInstance(e *Entry) url.Values {
	more := map[string]string{"tags": e.tags(), "secure": e.secure()}
	if held(e) {
		more["preserved.heart.beat.interval"] = milliseconds(nacosPace(e))
		more["preserved.heart.beat.timeout"] = milliseconds(e.TTL / 2)
		more["preserved.ip.delete.timeout"] = milliseconds(e.TTL)
	}
	form := url.Values{
		"serviceName": {e.Service}, "ip": {e.Address}, "port": {strconv.Itoa(e.Port)},
		"ephemeral": {strconv.FormatBool(held(e))},
	}
	if meta := e.metadata(more); len(meta) > 0 {
		text, _ := json.Marshal(meta)
		form.Set("metadata", string(text))
	}
	return parameters(e.Extra, form)
}

// nacosPace is Nacos's own: heartbeats every 5 s, unhealthy after 15, gone after 30.
func nacosPace(e *Entry) time.Duration { return e.TTL / 6 }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// nacosLogin is a form: the documentation has the password in the query, where logs show it.
func nacosLogin(user, password string) *exchange.Body {
	return &exchange.Body{Type: exchange.FormType, Content: []byte(url.Values{"username": {user}, "password": {password}}.Encode())}
}

// Codes in Nacos's answers. 3.x has one in every answer, the API before it only in that to a heartbeat.
const (
	nacosOK        = 0
	nacosBeatOK    = 10200
	nacosForgotten = 20404 // the answer to a heartbeat of an instance that is not there
	nacosNotFound  = 21003 // the same, 3.x
)

// nacosSays judges an answer by its status, and by its code if it has one. Without one, success is the word ok.
func nacosSays(_ *Entry, a *httpclient.Answer) finding {
	switch found := nacosStatus(a); {
	case found != there:
		return found
	case strings.Trim(string(a.Body), "\"\n ") == "ok":
		return there
	}
	var said struct{ Code *int }
	if json.Unmarshal(a.Body, &said) != nil || said.Code == nil {
		return refused // a proxy's, or a page for people: the path is not Nacos's
	}
	switch *said.Code {
	case nacosOK, nacosBeatOK, http.StatusOK:
		return there
	case nacosForgotten, nacosNotFound:
		return gone
	}
	return refused
}

// nacosHas judges a list of instances: is the entry's among them?
func nacosHas(e *Entry, a *httpclient.Answer) finding {
	if found := nacosStatus(a); found != there {
		return found
	}
	type instance struct {
		IP   string
		Port int
	}
	var said struct{ Hosts, Data []instance } // of the first API, of 3.x
	if json.Unmarshal(a.Body, &said) != nil {
		return refused
	}
	for _, i := range append(said.Hosts, said.Data...) {
		if i.IP == e.Address && i.Port == e.Port {
			return there
		}
	}
	return gone
}

// nacosStatus is what a status means: 403 is also that of a token that has
// expired, and 410 that of an API that is switched off.
func nacosStatus(a *httpclient.Answer) finding {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return stale
	case http.StatusGone:
		return refused
	}
	return byStatus(a)
}
