package waitfor

import (
	"maps"
	"slices"
)

// kinds lists every kind of target. A new one is a line here and a package.
var kinds = kindList{
	&dnsKind,
	&tcpKind,
	&tlsKind,
	&httpKind,
	&grpcKind,
	&unixKind,
	&fileKind,
	&k8sKind,
	&postgresKind,
	&mysqlKind,
	&memcachedKind,
	&zookeeperKind,
	&redisKind,
	&natsKind,
	&amqpKind,
	&kafkaKind,
	&mongoKind,
	&cassandraKind,
	&etcdKind,
	&elasticsearchKind,
	&clickhouseKind,
	&influxdbKind,
	&temporalKind,
}

// Kinds returns every kind of target, in the order of the documentation.
func Kinds() kindList { return kinds }

// KindOf returns the kind of target with the scheme, or nil.
func KindOf(scheme string) *Kind { return kinds.Of(scheme) }

// Schemes returns the schemes that [Parse] accepts, sorted.
func Schemes() []string { return kinds.Schemes() }

// Parse turns a target such as "tcp://mydb:5432" or
// "http://api/health#status=200&json=.status==UP" into a [Check]. Its errors
// never quote the target, which may hold a password.
//
// A target may refer to a secret, in the user information, the path or the
// query: ${file:/path}, which is read again at each attempt, and ${env:NAME},
// which must be set, because nothing can set it later.
func Parse(text string, o Options) (Check, error) {
	check, err := kinds.Parse(text, o)
	if t := parsedOf(check); err == nil && t != nil && t.gone {
		return gone{check}, nil
	}
	return check, err
}

// Unused returns those of the settings, sorted, that none of the checks takes:
// flags without an effect.
func Unused(s Settings, checks ...Check) []string {
	unused := maps.Clone(s)
	for _, c := range checks {
		if t := parsedOf(c); t != nil {
			for _, name := range t.kind.names() {
				delete(unused, name)
			}
		}
	}
	return slices.Sorted(maps.Keys(unused))
}

// parsedOf returns the target that c was parsed from, or nil.
func parsedOf(c Check) *target {
	if p, ok := c.(interface{ Parsed() *target }); ok {
		return p.Parsed()
	}
	return nil
}
