// Package kafka waits for Kafka: kafka://[USER@]HOST[:PORT][,HOST…][/TOPIC], or a list of bootstrap servers with their
// security protocol, such as SASL_SSL://b1:9093,SASL_SSL://b2:9093.
//
// A cluster is ready when one of the servers knows its controller. The setting topic waits for topics whose partitions
// have leaders, brokers for a number of brokers, and advertised for brokers that can be reached at the addresses that
// clients use after the bootstrap. The setting mechanism chooses how to log in; token-file is for OAUTHBEARER.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the scheme kafka.
var Kind = target.Kind{
	Schemes: []string{"kafka"},
	Usage:   "kafka://HOST[:PORT][,HOST…][/TOPIC]",
	Ready:   "a broker knows the cluster's controller; its topics have leaders",
	Settings: slices.Concat([]target.Setting{
		{Name: "topic", Value: "TOPIC", Usage: "the topic exists and each of its partitions has a leader", Multi: true},
		{Name: "brokers", Value: "N", Usage: "at least N brokers are in the cluster"},
		{Name: "advertised", Usage: "each broker accepts connections at its advertised address"},
		{Name: "mechanism", Value: "MECHANISM", Usage: "SASL mechanism (default: the strongest that is offered): " + strings.Join(mechanisms, ", ")},
		{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	}, wire.ServerSettings),
	Protocol: "Kafka's",
	Hosts:    true,
	Port:     "9092",
	Parse:    parse,
}

// check asks any of the bootstrap servers for the cluster, as every Kafka client does first. A broker that requires a
// login answers nothing without one.
//
// https://kafka.apache.org/protocol.html
type check struct {
	wire.Server
	brokers   int64
	topics    []string // from the settings; see named
	mechanism string   // "": the strongest that is offered
	offered   *atomic.Pointer[string]
}

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{Server: s, topics: t.Settings["topic"], offered: new(atomic.Pointer[string])}
	c.brokers, err = t.Settings.Count("brokers", 0)
	for _, topic := range c.topics {
		err = cmp.Or(err, topicProblem(topic))
	}
	if path := strings.Trim(t.URL.Path, "/"); path != "" && !t.URL.In(path) {
		err = cmp.Or(err, topicProblem(path))
	}
	return c, cmp.Or(err, c.parseSecurity())
}

// topicProblem returns nil for a valid name of a topic.
//
// https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
func topicProblem(name string) error {
	if name == "" || len(name) > 249 || name == "." || name == ".." || strings.Trim(name, words.NameCharacters) != "" {
		return errors.New("a topic's name consists of at most 249 letters, digits, '.', '_' and '-'")
	}
	return nil
}

// user are the names of the user's parameter in librdkafka and kafka-python.
var user = []string{"sasl.username", "sasl_plain_username"}

// parseSecurity reads how to connect to the brokers, also from parameters of the query that are named like options of
// librdkafka and kafka-python.
func (c *check) parseSecurity() error {
	switch protocol := c.URL.Param("security.protocol", "security_protocol"); strings.ToUpper(protocol) {
	case "SSL", "SASL_SSL":
		c.Encrypted = true
	case "", "PLAINTEXT", "SASL_PLAINTEXT":
	default:
		return errors.New("security.protocol: want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	}
	ca, cert := []string{"ssl.ca.location", "ssl_cafile"}, []string{"ssl.certificate.location", "ssl_certfile"}
	if strings.EqualFold(c.URL.Param("ssl.keystore.type"), "PEM") { // KIP-651
		cert = append(cert, "ssl.keystore.location")
	}
	if err := c.Certificates(ca, cert, []string{"ssl.key.location", "ssl_keyfile"}); err != nil {
		return err
	}
	c.mechanism = strings.ToUpper(cmp.Or(c.Settings.Get("mechanism"), c.URL.Param("sasl.mechanism", "sasl.mechanisms", "sasl_mechanism", "mechanism")))
	hasUser := c.URL.User != nil || c.URL.Param("user") != "" || c.URL.Param(user...) != "" || c.Settings.On("user")
	switch {
	case c.mechanism == "" && !hasUser && c.Settings.On("token-file"):
		if !c.Encrypted {
			return errors.New("token-file needs tls, or mechanism=OAUTHBEARER to send the token unencrypted")
		}
		c.mechanism = oauthBearer
	case c.mechanism == "":
	case !slices.Contains(mechanisms, c.mechanism):
		return fmt.Errorf("mechanism: want %s", words.List(mechanisms))
	case c.mechanism == oauthBearer && !c.Settings.On("token-file"):
		return errors.New("mechanism OAUTHBEARER needs token-file")
	case c.mechanism != oauthBearer && !hasUser:
		return fmt.Errorf("mechanism %s needs a user: write kafka://USER@HOST, with password-file", c.mechanism)
	}
	return nil
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	topics, err := c.named()
	if err != nil {
		return err
	}
	cluster, err := c.cluster(ctx, addr, topics)
	if err != nil {
		return err
	}
	if err := cluster.ready(c.brokers); err != nil {
		return err
	}
	for _, topic := range topics {
		if err := cluster.topics[topic.name].ready(topic.shown); err != nil {
			return err
		}
	}
	if c.Settings.On("advertised") {
		return c.connectToEach(ctx, cluster.brokers)
	}
	return nil
}

// A topicName is the name of a requested topic, and the form of it that may be shown.
type topicName struct{ name, shown string }

// named returns the requested topics. The path may refer to a file or variable with the name of one.
func (c check) named() ([]topicName, error) {
	var topics []topicName
	for _, topic := range c.topics {
		topics = append(topics, topicName{topic, topic})
	}
	if path := strings.Trim(c.URL.Path, "/"); path != "" {
		u, err := c.URL.Expand()
		if err != nil {
			return nil, err
		}
		name := strings.Trim(u.Path, "/")
		if topicProblem(name) != nil {
			return nil, failure.New(failure.Local, "the value that the path refers to is not a topic's name")
		}
		topics = append(topics, topicName{name, c.URL.Hide(path)})
	}
	return topics, nil
}

// connectToEach connects to the brokers' advertised addresses: clients use those after the bootstrap.
func (c check) connectToEach(ctx context.Context, brokers []broker) error {
	login, err := c.currentLogin()
	if err != nil {
		return err
	}
	for _, b := range brokers {
		addr, err := wire.ToldAddr(b.host, strconv.Itoa(int(b.port)))
		if err != nil {
			return c.Kind.OtherProtocol()
		}
		conn, err := wire.Connect(ctx, c.Server, addr)
		if err == nil {
			conn.Close()
			continue
		}
		f := failure.Of(err)
		if f.Class == failure.TimedOut {
			return err // poll adds the step that was in progress
		}
		f.Text = secret.Quote(fmt.Sprintf("broker %d, advertised as %s: %s", b.id, addr, f.Text), c.secrets(login)...)
		f.Hint = "clients connect to that address: advertised.listeners must contain an address that this Pod can reach"
		f.Elsewhere, f.Err = true, err
		return f
	}
	return nil
}

// A clusterState is a broker's view of the cluster.
type clusterState struct {
	brokers    []broker // those that are alive
	controller int32    // ID of the broker that acts as the controller, or -1
	topics     map[string]*topic
}

type broker struct {
	id, port int32
	host     string
}

type topic struct {
	code       int16
	partitions int
	leaderless int
}

// ready checks everything except the topics. Like Kafka's administrative clients, it requires that the controller is
// one of the brokers.
func (k *clusterState) ready(brokers int64) error {
	switch there := slices.ContainsFunc(k.brokers, func(b broker) bool { return b.id == k.controller }); {
	case k.controller < 0:
		return failure.New(failure.Unexpected, "no controller yet").
			WithHint("none is elected yet, or this broker does not know it yet: is a majority of the controllers, or of ZooKeeper, running? look at the brokers' logs")
	case !there:
		return failure.New(failure.Unexpected, "the controller, broker %d, is not in the cluster", k.controller).
			WithHint("is its Pod running? the cluster has not elected another one yet")
	case int64(len(k.brokers)) < brokers:
		return failure.New(failure.Unexpected, "%d of %s", len(k.brokers), words.Plural(int(brokers), "broker")).
			WithHint("are the Pods of the other brokers running? look at their logs")
	}
	return nil
}

func (t *topic) ready(name string) error {
	f := failure.New(failure.Unexpected, "topic %s does not exist", name)
	switch {
	case t == nil, t.code == unknownTopic:
		f.Hint = "what should create it? waiting does not, even with auto.create.topics.enable"
	case t.code == topicAuthorization:
		f = failure.New(failure.Authentication, "topic %s: not authorized", name)
		f.Hint = "the user needs an ACL that allows Describe on the topic"
	case t.code == leaderNotAvailable:
		f.Text = "topic " + name + " has no leaders yet"
		f.Hint = "it is being created"
	case t.code != 0:
		f.Text = "topic " + name + ": " + errorText(t.code)
		f.Hint = "look at the log of the broker"
	case t.partitions == 0:
		f.Text = "topic " + name + " has no partitions yet"
		f.Hint = "it is being created"
	case t.leaderless > 0:
		have := "have"
		if t.leaderless == 1 {
			have = "has"
		}
		f.Text = fmt.Sprintf("topic %s: %d of %s %s no leader", name, t.leaderless, words.Plural(t.partitions, "partition"), have)
		f.Hint = "are the brokers with their replicas running? look at their logs"
	default:
		return nil
	}
	return f
}

// cluster asks the broker at addr for the cluster, after a login if the target has one.
func (c check) cluster(ctx context.Context, addr string, topics []topicName) (*clusterState, error) {
	conn, err := c.session(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	poll.Doing(ctx, "asking for the cluster")
	cluster, err := conn.metadata(topics)
	if err != nil && !conn.loggedIn && failure.Of(err).Class == failure.Reset {
		f := failure.New(failure.Authentication, "the broker closes the connection of a client without a login")
		f.Hint, f.Err = "if it requires a login (SASL), set --user and --password-file, or kafka://USER@HOST", err
		return nil, f
	}
	return cluster, err
}
