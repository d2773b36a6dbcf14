// Command grpchealth is a grpc-go server with only the standard health protocol: the reference for a gRPC health
// client.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	cert := flag.String("cert", "", "PEM `file` with the certificate chain; with --key, serves TLS")
	key := flag.String("key", "", "PEM `file` with the private key")
	service := flag.String("service", "", "`name` of a service whose health is known, beside the server's own")
	notServing := flag.Bool("not-serving", false, "NOT_SERVING until SIGUSR1, SERVING from then on")
	flag.Parse()

	opts, err := serverOptions(*cert, *key)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(s, becomesHealthy(*service, *notServing))
	stopOnSignal(s)
	log.Printf("listening on %s", l.Addr())
	if err := s.Serve(l); err != nil {
		log.Fatal(err)
	}
}

// serverOptions enables TLS if there is a certificate.
func serverOptions(cert, key string) ([]grpc.ServerOption, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))}, nil
}

// becomesHealthy knows the health of the server, whose name is empty, and of one service. Any other name is NOT_FOUND.
func becomesHealthy(service string, notServing bool) *health.Server {
	h := health.NewServer()
	set := func(status healthpb.HealthCheckResponse_ServingStatus) {
		h.SetServingStatus("", status)
		h.SetServingStatus(service, status)
		log.Print(status)
	}
	if !notServing {
		set(healthpb.HealthCheckResponse_SERVING)
		return h
	}
	heal := make(chan os.Signal, 1)
	signal.Notify(heal, syscall.SIGUSR1)
	set(healthpb.HealthCheckResponse_NOT_SERVING)
	go func() {
		<-heal
		set(healthpb.HealthCheckResponse_SERVING)
	}()
	return h
}

func stopOnSignal(s *grpc.Server) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		s.Stop()
	}()
}
