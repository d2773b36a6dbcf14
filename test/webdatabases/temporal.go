package webdatabases

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
)

// temporal answers as
// https://github.com/temporalio/api/blob/master/temporal/api/workflowservice/v1/service.proto
// and https://github.com/grpc/grpc/blob/master/doc/health-checking.md
func (o Options) temporal(w http.ResponseWriter, r *http.Request, ready bool) {
	const service = "temporal.api.workflowservice.v1.WorkflowService"
	frame, _ := io.ReadAll(r.Body)
	if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" || len(frame) < 5 {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	asked := fields(frame[5:])
	failed := func(code int, text string) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", fmt.Sprint(code)) // an answer with only trailers
		w.Header().Set("Grpc-Message", text)
	}
	isHealth := r.URL.Path == "/grpc.health.v1.Health/Check"
	switch {
	case !isHealth && !o.knows(r, "Bearer"):
		failed(7, "Request unauthorized.")
	case !isHealth && asked[1] != o["namespace"]:
		failed(5, "Namespace%20"+asked[1]+"%20is%20not%20found.")
	case !isHealth && !ready && o["queue"] == "":
		failed(14, "Not%20enough%20hosts%20to%20serve%20the%20request")
	case isHealth && asked[1] != service:
		failed(5, "unknown service")
	case isHealth && !ready:
		reply(w, "\x08\x02") // NOT_SERVING
	case isHealth:
		reply(w, "\x08\x01")
	case r.URL.Path == "/"+service+"/DescribeNamespace":
		info := text(1, o["namespace"]) + "\x10\x01" // REGISTERED
		if o["deleted"] != "" {
			info = text(1, o["namespace"]) + "\x10\x03" // DELETED
		}
		reply(w, text(1, info)+text(2, "\x0a\x02\x08\x01")+"\x28\x01")
	case r.URL.Path == "/"+service+"/DescribeTaskQueue":
		if fields([]byte(asked[2]))[1] != o["queue"] || !ready || asked[3] != "1" {
			reply(w, "")
			return
		}
		reply(w, text(1, text(2, "1@worker")))
	default:
		failed(12, "unknown%20method")
	}
}

func reply(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	w.Header().Set("Grpc-Status", "0")
}

// text encodes a short field of a protobuf message.
func text(field byte, value string) string {
	return string([]byte{field<<3 | 2, byte(len(value))}) + value
}

// fields decodes the short fields of a message.
func fields(message []byte) map[int]string {
	all := map[int]string{}
	for len(message) > 1 {
		field, kind, value := int(message[0]>>3), message[0]&7, int(message[1])
		message = message[2:]
		if kind == 0 {
			all[field] = fmt.Sprint(value)
			continue
		}
		if kind != 2 || value > len(message) {
			break
		}
		all[field] = string(message[:value])
		message = message[value:]
	}
	return all
}

// Protocols are the servers' protocols.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}
