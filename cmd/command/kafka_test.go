package command

import (
	"strings"
	"testing"

	"initbox/test/servers"
)

// startKafka starts three brokers of kfake. The options are topics, NAME:PARTITIONS, and "sasl", with which the user
// app has to log in with SCRAM-SHA-256. "_all" are all the brokers, joined by commas.
func startKafka(t testing.TB, options []string) map[string]string {
	o := servers.KafkaOptions{Brokers: 3}
	password := ""
	for _, option := range options {
		switch {
		case option == "sasl":
			password = "hUnter2tIger9"
			o.Users = []servers.KafkaUser{{Mechanism: "SCRAM-SHA-256", Name: "app", Password: password}}
		case strings.Contains(option, ":"):
			o.Topics = append(o.Topics, option)
		default:
			t.Fatalf("database: kafka has no option %s", option)
		}
	}
	k := servers.StartKafka(t, o)
	return map[string]string{"": k.Addrs[0], "_all": strings.Join(k.Addrs, ","), "_password": password}
}
