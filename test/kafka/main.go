// Command kafka is franz-go's kfake: brokers that keep their records in memory, and that clients cannot distinguish
// from Kafka's. It corrects kfake's answers to a login where they differ from Kafka's, and it has faults, which are set
// over HTTP.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	listen := flag.String("listen", "", "loopback `addresses` of the brokers, joined by commas")
	control := flag.String("control", "", "loopback `address` of the HTTP server that sets faults")
	cert := flag.String("cert", "", "PEM `file` with the certificate chain; with --key, speaks TLS")
	key := flag.String("key", "", "PEM `file` with the private key")
	ca := flag.String("client-ca", "", "PEM `file` with the authority of the clients' certificates, which are then asked for")
	acls := flag.Bool("acls", false, "forbid what is not granted")
	var topics, users list
	flag.Var(&topics, "topic", "`name:partitions`; may be repeated")
	flag.Var(&users, "user", "`mechanism:name:password[:topic]` of a user who may log in, and Describe only that topic; may be repeated")
	flag.Parse()

	conf, err := serverTLS(*cert, *key, *ca)
	if err != nil {
		log.Fatal(err)
	}
	addrs := strings.Split(*listen, ",")
	c, err := newCluster(addrs, conf, topics, users, *acls)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	l, err := net.Listen("tcp", *control)
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, c)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}

type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func serverTLS(cert, key, ca string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		conf.ClientCAs.AppendCertsFromPEM(pem)
	}
	return conf, nil
}

// cluster is a cluster with its faults.
type cluster struct {
	*kfake.Cluster
	addrs []string
	users map[string]map[string]string // passwords, by mechanism and name

	mu           sync.Mutex
	noController bool
	advertised   map[int]string // the addresses of brokers, if changed
	faults       []*kfake.FaultHandle
}

func newCluster(addrs []string, conf *tls.Config, topics, users []string, acls bool) (*cluster, error) {
	c := &cluster{addrs: addrs, users: map[string]map[string]string{}}
	var ports []int
	for _, addr := range addrs {
		_, p, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		port, err := strconv.Atoi(p)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	o := []kfake.Opt{kfake.Ports(ports...)}
	if conf != nil {
		o = append(o, kfake.TLS(conf))
	}
	for _, topic := range topics {
		name, n, _ := strings.Cut(topic, ":")
		partitions, err := strconv.Atoi(n)
		if err != nil {
			return nil, err
		}
		o = append(o, kfake.SeedTopics(int32(partitions), name))
	}
	for _, user := range users {
		parts := strings.SplitN(user, ":", 4)
		if len(parts) < 3 {
			return nil, fmt.Errorf("user: want mechanism:name:password[:topic]")
		}
		if c.users[parts[0]] == nil {
			c.users[parts[0]] = map[string]string{}
		}
		c.users[parts[0]][parts[1]] = parts[2]
		if len(parts) == 3 {
			o = append(o, kfake.Superuser(parts[0], parts[1], parts[2]))
			continue
		}
		o = append(o, kfake.User(parts[0], parts[1], parts[2], kfake.ACL{
			Resource: kmsg.ACLResourceTypeTopic, Name: parts[3], Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationDescribe, Allow: true,
		}))
	}
	if len(users) > 0 {
		o = append(o, kfake.EnableSASL())
	}
	if acls {
		o = append(o, kfake.EnableACLs())
	}
	var err error
	if c.Cluster, err = kfake.NewCluster(o...); err != nil {
		return nil, err
	}
	c.ControlKey(int16(kmsg.SASLHandshake), c.handshake)
	c.ControlKey(int16(kmsg.SASLAuthenticate), c.authenticate)
	c.ControlKey(int16(kmsg.Metadata), c.metadata)
	return c, nil
}

// handshake offers the mechanisms of the users. kfake offers all that it supports.
func (c *cluster) handshake(r kmsg.Request) (kmsg.Response, error, bool) {
	c.KeepControl()
	resp := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
	switch mechanism := r.(*kmsg.SASLHandshakeRequest).Mechanism; {
	case len(c.users) == 0: // the answer of a listener without SASL
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case c.users[mechanism] == nil:
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		resp.SupportedMechanisms = slices.Sorted(maps.Keys(c.users))
	default:
		return nil, nil, false
	}
	return resp, nil, true
}

// authenticate rejects a wrong password of PLAIN with Kafka's error. kfake closes the connection, as for the other
// mechanisms.
func (c *cluster) authenticate(r kmsg.Request) (kmsg.Response, error, bool) {
	c.KeepControl()
	parts := bytes.Split(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte{0})
	if len(parts) != 3 {
		return nil, nil, false
	}
	if password, known := c.users["PLAIN"][string(parts[1])]; known && password == string(parts[2]) {
		return nil, nil, false
	}
	resp := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
	resp.ErrorMessage = kmsg.StringPtr("Authentication failed: Invalid username or password")
	return resp, nil, true
}

// metadata answers instead of kfake for a cluster without a controller, or with other advertised addresses. It has no
// topics.
func (c *cluster) metadata(r kmsg.Request) (kmsg.Response, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.KeepControl()
	if !c.noController && len(c.advertised) == 0 {
		return nil, nil, false
	}
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	if resp.ControllerID = 0; c.noController {
		resp.ControllerID = -1
	}
	for i, addr := range c.addrs {
		if a, ok := c.advertised[i]; ok {
			addr = a
		}
		b := kmsg.NewMetadataResponseBroker()
		host, port, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(port)
		b.NodeID, b.Host, b.Port = int32(i), host, int32(n)
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp, nil, true
}

// ServeHTTP sets the fault in the path: /no-controller, /advertise?node=N&addr=HOST:PORT, /create?topic=T&n=PARTITIONS,
// /leaderless?topic=T&n=PARTITIONS, /heal.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	topic := r.FormValue("topic")
	n, _ := strconv.Atoi(r.FormValue("n"))
	node, _ := strconv.Atoi(r.FormValue("node"))
	if r.URL.Path == "/create" {
		if err := c.CreateTopic(topic, int32(n), nil); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/no-controller":
		c.noController = true
	case "/advertise":
		c.advertised = map[int]string{node: r.FormValue("addr")}
	case "/leaderless":
		f := kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: kerr.LeaderNotAvailable, Count: -1}
		for p := range n {
			f.Partitions = append(f.Partitions, int32(p))
		}
		c.faults = append(c.faults, c.Fault(f))
	case "/heal":
		c.noController, c.advertised = false, nil
		for _, f := range c.faults {
			f.Remove()
		}
		c.faults = nil
	default:
		http.NotFound(w, r)
	}
}
