package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/test/fakeapi"
)

// TestEvents pins what is written about the Pod, and that a wait goes on where nothing may be written.
func TestEvents(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	forbidden := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if forbidden {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "events is forbidden: User \"system:serviceaccount:shop:web\" cannot create resource \"events\""}`)
			return
		}
		bodies = append(bodies, r.Method+" "+r.URL.Path+" "+string(body))
		w.WriteHeader(http.StatusCreated)
		w.Write(body)
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(fakeapi.Kubeconfig(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	t.Setenv("POD_NAME", "web-0")
	t.Setenv("POD_NAMESPACE", "shop")
	var log bytes.Buffer
	write := func() {
		e := &env{log: slog.New(slog.NewTextHandler(&log, nil)), untilStopped: context.Background()}
		e.name = "wait-for-service"
		ev := e.newEvents()
		ev.notice("waiting for 30s, 1 of 1 target left: db: no such name\x1b", false, false)
		ev.notice(strings.Repeat("ä", 2000), true, false)
		ev.notice("ready after 45s", true, true)
		start := time.Now()
		ev.close()
		if took := time.Since(start); took > eventGrace+time.Second {
			t.Errorf("the end took %v", took)
		}
		<-ev.done
	}

	write() // without the UID, by which kubectl describe finds Events
	if len(bodies) > 0 || strings.Count(log.String(), "no Event is written: the Pod's UID is not known") != 1 || !strings.Contains(log.String(), "POD_UID") {
		t.Errorf("%q\n%s", bodies, &log)
	}

	t.Setenv("POD_UID", "5f1b")
	log.Reset()
	write()
	if len(bodies) != 3 || log.Len() > 0 {
		t.Fatalf("%q\n%s", bodies, &log)
	}
	for i, want := range []struct{ kind, reason, message string }{
		{"Warning", "Waiting", `wait-for-service: waiting for 30s, 1 of 1 target left: db: no such name\x1b`},
		{"Warning", "NotReady", "wait-for-service: ää"},
		{"Normal", "Ready", "wait-for-service: ready after 45s"},
	} {
		path, body, _ := strings.Cut(bodies[i], "events ")
		var got struct {
			Kind, Type, Reason, Message string
			Metadata                    struct{ Name, Namespace string }
			InvolvedObject              struct{ Kind, Name, Namespace, UID string }
			Count                       int
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		o := got.InvolvedObject
		if path != "POST /api/v1/namespaces/shop/" || got.Kind != "Event" || got.Type != want.kind || got.Reason != want.reason || !strings.HasPrefix(got.Message, want.message) || len(got.Message) > maxMessage ||
			got.Metadata.Namespace != "shop" || !strings.HasPrefix(got.Metadata.Name, "web-0.") || got.Count != 1 || o.Kind != "Pod" || o.Name != "web-0" || o.Namespace != "shop" || o.UID != "5f1b" {
			t.Errorf("%s %+v, want %+v", path, got, want)
		}
	}

	forbidden = true
	write()
	if strings.Count(log.String(), "no Event is written: ") != 1 || !strings.Contains(log.String(), "resources: [events], verbs: [create]") {
		t.Errorf("%s", &log)
	}
}
