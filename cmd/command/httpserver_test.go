package command

import (
	"bytes"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

var discardLog = log.New(io.Discard, "", 0)

// serveHTTP is the server of kind http. The first element of the path says what it answers:
//
//	/status/N           that status
//	/ready-after/N      503 to the first N requests, then 200
//	/body/TEXT          that body
//	/header/NAME/VALUE  that header
//	/bearer/TOKEN       200 if that was sent, otherwise 401
//	/basic/USER/PASS    likewise
//	/to?URL             a redirect there
//	/loop               a redirect to itself
//	/late/DURATION      200 after so long
//	/endless-body, /endless-header, /hang, /slow-body
//
// Anything else is answered with 200. The server may be of a socket.
func serveHTTP(s *server, l net.Listener) {
	var mu sync.Mutex
	seen := map[string]int{} // requests by path
	httpServer(negotiating(s, l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.record("%s", requestLine(r, body))
		mu.Lock()
		seen[r.URL.Path]++
		n := seen[r.URL.Path]
		mu.Unlock()
		parts := strings.SplitN(strings.Trim(r.URL.Path, "/"), "/", 3)
		parts = append(parts, "", "")
		if handle := httpHandlers[parts[0]]; handle != nil {
			handle(w, r, parts[1], parts[2], n)
		}
	}))
}

// negotiating lets TLS clients choose HTTP/2, which net/http arranges only in ServeTLS.
func negotiating(s *server, l net.Listener) net.Listener {
	if s.tls != nil {
		s.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	return l
}

// httpHandlers answer a request, the nth one for its path, by the elements of the path after the first.
var httpHandlers = map[string]func(w http.ResponseWriter, r *http.Request, arg, arg2 string, n int){
	"status": func(w http.ResponseWriter, _ *http.Request, status, _ string, _ int) {
		code, _ := strconv.Atoi(status)
		w.WriteHeader(code)
	},
	"echo": func(w http.ResponseWriter, r *http.Request, status, _ string, _ int) {
		code, _ := strconv.Atoi(status)
		w.WriteHeader(code)
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, requestLine(r, body))
	},
	"ready-after": func(w http.ResponseWriter, _ *http.Request, count, _ string, n int) {
		if after, _ := strconv.Atoi(count); n <= after {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	},
	"body": func(w http.ResponseWriter, _ *http.Request, text, _ string, _ int) { io.WriteString(w, text) },
	"header": func(w http.ResponseWriter, _ *http.Request, name, value string, _ int) {
		w.Header().Set(name, value)
	},
	"bearer": func(w http.ResponseWriter, r *http.Request, token, _ string, _ int) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
		}
	},
	"basic": func(w http.ResponseWriter, r *http.Request, user, password string, _ int) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.WriteHeader(http.StatusUnauthorized)
		}
	},
	"to": func(w http.ResponseWriter, r *http.Request, _, _ string, _ int) {
		to, _ := url.QueryUnescape(r.URL.RawQuery)
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	},
	"loop": func(w http.ResponseWriter, r *http.Request, _, _ string, _ int) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	},
	"late": func(_ http.ResponseWriter, r *http.Request, text, _ string, _ int) {
		d, _ := time.ParseDuration(text)
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	},
	"hang": func(_ http.ResponseWriter, r *http.Request, _, _ string, _ int) { <-r.Context().Done() },
	"slow-body": func(w http.ResponseWriter, r *http.Request, _, _ string, _ int) {
		io.WriteString(w, "the beginning")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	},
	"endless-body": func(w http.ResponseWriter, _ *http.Request, _, _ string, _ int) {
		for chunk := bytes.Repeat([]byte("x"), 1<<16); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	},
	"endless-header": func(w http.ResponseWriter, _ *http.Request, _, _ string, _ int) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		rw.WriteString("HTTP/1.1 200 OK\r\n")
		for {
			if _, err := rw.WriteString("X-Endless: " + strings.Repeat("x", 1000) + "\r\n"); err != nil {
				return
			}
		}
	},
}

// serveGRPC is the server of kind grpc: the health service, without a gRPC
// library. The service asked for says what it answers:
//
//	SERVING, NOT_SERVING, UNKNOWN   that
//	ready-after-N                   NOT_SERVING N times, then SERVING
//	code-N                          gRPC status N without a message
//	malformed, http, hang           no proper answer
//
// No service at all is SERVING.
func serveGRPC(s *server, l net.Listener) {
	var mu sync.Mutex
	seen := map[string]int{}
	httpServer(negotiating(s, l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		service := requestedService(body)
		s.record("%s %s %s service %q", r.Method, r.URL.Path, r.Proto, service)
		if r.URL.Path != "/grpc.health.v1.Health/Check" || r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		mu.Lock()
		seen[service]++
		n := seen[service]
		mu.Unlock()
		answerHealth(w, r, service, n)
	}))
}

func answerHealth(w http.ResponseWriter, r *http.Request, service string, n int) {
	w.Header().Set("Content-Type", "application/grpc")
	code, status := "0", byte(1)
	after, isAfter := strings.CutPrefix(service, "ready-after-")
	code2, isCode := strings.CutPrefix(service, "code-")
	switch {
	case service == "hang":
		<-r.Context().Done()
		return
	case service == "http":
		w.Header().Set("Content-Type", "text/html")
		return
	case isCode:
		w.Header().Set("Grpc-Status", code2) // an answer of trailers only
		return
	case service == "NOT_SERVING":
		status = 2
	case service == "UNKNOWN":
		status = 0
	case isAfter:
		if count, _ := strconv.Atoi(after); n <= count {
			status = 2
		}
	}
	message := []byte{1 << 3, status}
	switch {
	case service == "malformed":
		message = []byte{0xff}
	case status == 0:
		message = nil
	}
	w.Header().Set("Trailer", "Grpc-Status")
	w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	w.Header().Set("Grpc-Status", code)
}

// requestedService reads a framed HealthCheckRequest of one short field.
func requestedService(frame []byte) string {
	if len(frame) < 7 || frame[5] != 1<<3|2 || int(frame[6]) != len(frame)-7 {
		return ""
	}
	return string(frame[7:])
}
