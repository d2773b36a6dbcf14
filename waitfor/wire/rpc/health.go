package rpc

import (
	"fmt"

	"initbox/internal/failure"
)

// HealthMethod is the method that returns the health of a service.
const HealthMethod = "/grpc.health.v1.Health/Check"

// Serving returns nil if the health service answered SERVING.
func (a Answer) Serving() error {
	status, err := healthStatus(a.Frame)
	if err != nil {
		return err
	}
	if status != servingStatus {
		return failure.New(failure.Unexpected, "the service reports %s", statusName(status)).
			WithHint("the server is running but reports that it is not ready: look at its log")
	}
	return nil
}

// HealthRequest returns the HealthCheckRequest: field 1 is the service.
func HealthRequest(service string) []byte { return AppendText(nil, 1, service) }

// servingStatus is SERVING in HealthCheckResponse.ServingStatus.
const servingStatus = 1

func statusName(s uint64) string {
	switch s {
	case 0:
		return "UNKNOWN"
	case 1:
		return "SERVING"
	case 2:
		return "NOT_SERVING"
	case 3:
		return "SERVICE_UNKNOWN"
	}
	return fmt.Sprintf("status %d", s)
}

// Failure returns what a grpc-status means for a health check, and nil for OK.
func Failure(status string) error {
	switch status {
	case "0":
		return nil
	case "5":
		return failure.New(failure.Unexpected, "the server does not know the service (NOT_FOUND)").
			WithHint("is the service's name right? without a name, the target is the whole server")
	case "7", "16":
		return failure.New(failure.Authentication, "the server refuses to report its health (gRPC status %s)", status)
	case "12":
		return failure.New(failure.Unexpected, "the server has no health service (UNIMPLEMENTED)").
			WithHint("register grpc.health.v1.Health in the server, or wait for its port with tcp://")
	case "14":
		return failure.New(failure.Unexpected, "the server is unavailable (UNAVAILABLE)")
	case "":
		return failure.New(failure.Unexpected, "the answer has no gRPC status")
	}
	if len(status) > 3 {
		status = "unknown"
	}
	return failure.New(failure.Unexpected, "gRPC status %s", status)
}

// healthStatus reads the framed HealthCheckResponse: field 1 is the status, absent if 0. It skips unknown fields.
func healthStatus(frame []byte) (status uint64, err error) {
	message, ok := Message(frame)
	if !ok || !Fields(message, func(field, number uint64, text []byte) {
		if field == 1 && text == nil {
			status = number
		}
	}) {
		return 0, failure.New(failure.Unexpected, "the health service's answer is malformed")
	}
	return status, nil
}
