package waitfor

import (
	"maps"
	"slices"

	"initbox/waitfor/amqp"
	"initbox/waitfor/cassandra"
	"initbox/waitfor/clickhouse"
	"initbox/waitfor/dns"
	"initbox/waitfor/elasticsearch"
	"initbox/waitfor/etcd"
	"initbox/waitfor/file"
	"initbox/waitfor/grpc"
	"initbox/waitfor/http"
	"initbox/waitfor/influxdb"
	"initbox/waitfor/k8s"
	"initbox/waitfor/kafka"
	"initbox/waitfor/memcached"
	"initbox/waitfor/mongodb"
	"initbox/waitfor/mysql"
	"initbox/waitfor/nats"
	"initbox/waitfor/postgres"
	"initbox/waitfor/redis"
	"initbox/waitfor/socket"
	"initbox/waitfor/target"
	"initbox/waitfor/temporal"
	"initbox/waitfor/zookeeper"
)

// kinds lists every kind of target. A new kind is a package and a line here.
var kinds = target.Kinds{
	&dns.Kind,
	&socket.TCP,
	&socket.TLS,
	&http.Kind,
	&grpc.Kind,
	&socket.Unix,
	&file.Kind,
	&k8s.Kind,
	&postgres.Kind,
	&mysql.Kind,
	&memcached.Kind,
	&zookeeper.Kind,
	&redis.Kind,
	&nats.Kind,
	&amqp.Kind,
	&kafka.Kind,
	&mongodb.Kind,
	&cassandra.Kind,
	&etcd.Kind,
	&elasticsearch.Kind,
	&clickhouse.Kind,
	&influxdb.Kind,
	&temporal.Kind,
}

// Kinds returns every kind of target, in the order of the documentation.
func Kinds() target.Kinds { return kinds }

// KindOf returns the kind of target with the scheme, or nil.
func KindOf(scheme string) *target.Kind { return kinds.Of(scheme) }

// Parse turns a target such as "tcp://mydb:5432" or "http://api/health#status=200&json=.status==UP" into a [Check]. Its
// errors never quote the target, which may contain a password.
//
// A target may refer to a secret, in the user information, the path or the query: ${file:/path}, which is read again at
// each attempt, and ${env:NAME}, which must already be set, because nothing can set it later.
func Parse(text string, o target.Options) (target.Check, error) {
	return kinds.Parse(text, o)
}

// Unused returns the settings, sorted, that no check takes: flags without an effect.
func Unused(s target.Settings, checks ...target.Check) []string {
	unused := maps.Clone(s)
	for _, c := range checks {
		if t := target.Of(c); t != nil {
			for _, name := range t.Kind.Names() {
				delete(unused, name)
			}
		}
	}
	return slices.Sorted(maps.Keys(unused))
}
