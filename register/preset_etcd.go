package register

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

// The calls of etcd are those of its gateway from JSON to gRPC, https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway:
// bytes are in base64, as encoding/json has them, and numbers of 64 bits are strings.

func etcdName(e *Entry) []byte { return []byte("/services/" + e.Service + "/" + e.ID) }

func etcdKey(e *Entry) any { return map[string]any{"key": etcdName(e)} }

func etcdRange(e *Entry) any { return map[string]any{"key": etcdName(e), "count_only": true} }

func etcdPut(e *Entry) any {
	value, _ := json.Marshal(with(e.Extra, map[string]any{
		"service": e.Service, "id": e.ID, "address": e.Address, "port": e.Port, "secure": e.Secure,
		"tags": e.Tags, "meta": e.Meta, "health": e.Health,
	}))
	put := map[string]any{"key": etcdName(e), "value": value}
	if held(e) {
		put["lease"] = etcdLeaseID(e)
	}
	return put
}

func etcdLease(e *Entry) any { return map[string]any{"ID": etcdLeaseID(e)} }

func etcdGrant(e *Entry) any {
	return map[string]any{"ID": etcdLeaseID(e), "TTL": strconv.FormatInt(seconds(e.TTL), 10)}
}

// etcdLeaseID is the number of the entry's lease. It follows from the entry, so that who repeats a request whose answer
// was lost finds the lease it asked for; and from the TTL, which a lease never changes.
func etcdLeaseID(e *Entry) string {
	sum := sha256.Sum256([]byte(string(etcdName(e)) + "\n" + e.TTL.String()))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>1|1, 10) // an int64, and not 0, which means any
}

func etcdLogin(user, password string) *exchange.Body {
	text, _ := json.Marshal(map[string]string{"name": user, "password": password})
	return &exchange.Body{Type: exchange.JSONType, Content: text}
}

// etcdAnswer is what the judges look at, of all answers.
type etcdAnswer struct {
	Code    int    // of gRPC; 0 if it is no error
	Message string // of the error
	Count   string // of keys
	Result  struct {
		TTL string // of a lease; none if there is no such lease
	}
	Error json.RawMessage // of a stream: an object with another code and message
}

// Codes of gRPC, https://grpc.github.io/grpc/core/md_doc_statuscodes.html.
const (
	grpcNotFound        = 5
	grpcDenied          = 7
	grpcUnauthenticated = 16
)

// parseEtcd returns the first value of an answer, which may be a stream of them. It is nil if that is not etcd's.
func parseEtcd(a *httpclient.Answer) *etcdAnswer {
	var said etcdAnswer
	if json.NewDecoder(bytes.NewReader(a.Body)).Decode(&said) != nil {
		return nil
	}
	var streamed struct {
		Code     int
		GRPCCode int `json:"grpc_code"` // before 3.6
		Message  string
	}
	if json.Unmarshal(said.Error, &streamed) == nil {
		said.Code, said.Message = max(streamed.Code, streamed.GRPCCode), streamed.Message
	}
	return &said
}

// etcdSays judges what an answer says of what was to be done. The status of a lease that exists was 412 before etcd 3.5
// and is 400 since, that of a stream's error is 200: so the code counts.
func etcdSays(_ *Entry, a *httpclient.Answer) finding {
	said := parseEtcd(a)
	switch {
	case said == nil:
		if found := byStatus(a); found == again {
			return again
		}
		return refused // there is no gateway at this URL
	case strings.Contains(said.Message, "lease already exists"):
		return there
	case said.Code == grpcNotFound:
		return gone
	case said.Code == grpcUnauthenticated, strings.Contains(said.Message, "revision of auth store is old"):
		return stale
	case said.Code == grpcDenied:
		return refused
	case said.Code != 0 && a.Status == http.StatusOK:
		return again // the stream has ended before its answer
	}
	return byStatus(a)
}

// etcdAlive judges the answer to a keepalive.
func etcdAlive(e *Entry, a *httpclient.Answer) finding {
	found := etcdSays(e, a)
	if ttl := parseEtcd(a); found == there && (ttl.Result.TTL == "" || ttl.Result.TTL == "0") {
		return gone
	}
	return found
}

// etcdHas judges the answer to the question for a key.
func etcdHas(e *Entry, a *httpclient.Answer) finding {
	found := etcdSays(e, a)
	if keys := parseEtcd(a); found == there && (keys.Count == "" || keys.Count == "0") {
		return gone
	}
	return found
}
