package amqp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// broker is a real RabbitMQ, with the CA of its certificate.
type broker struct {
	*servers.RabbitMQ
	t  *testing.T
	ca *servers.CA
}

// check makes one attempt. In a target, APP and IDLE stand for users with their password, ADDR and TLSADDR for the
// addresses.
func (b broker) check(text string) error {
	b.t.Helper()
	password := ":" + url.QueryEscape(servers.RabbitMQPassword) + "@"
	text = strings.NewReplacer("APP", "app"+password, "IDLE", "idle"+password, "TLSADDR", b.TLSAddr, "ADDR", b.Addr).Replace(text)
	check, err := waitfor.Parse(text, target.Options{Settings: target.Settings{"ca-file": {b.ca.File}}})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), servers.Patience)
	defer cancel()
	err = check.Check(ctx)
	kindtest.SaysPlainly(b.t, err, "Unter2", "Iger9")
	return err
}

// is checks that a target is ready, if text is "", or else that the failure contains text.
func (b broker) is(target string, class failure.Class, text string) {
	b.t.Helper()
	switch err := b.check(target); {
	case err == nil && text != "":
		b.t.Errorf("%s is ready, want %s", target, text)
	case err != nil && (failure.Of(err).Class != class || text == "" || !strings.Contains(failure.Of(err).Text, text)):
		b.t.Errorf("%s: %s: %v, want %s: %q", target, failure.Of(err).Class, err, class, text)
	}
}

// becomes waits until a target is ready, if text is "", or else until the failure contains text.
func (b broker) becomes(target, text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), servers.Patience)
	defer cancel()
	var last error
	err := poll.Until(ctx, poll.Policy{}, func(context.Context) error {
		last = b.check(target)
		if (last == nil) != (text == "") || last != nil && !strings.Contains(failure.Of(last).Text, text) {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		b.t.Fatalf("%s does not become %q: %v", target, text, last)
	}
}

// TestReal asks Debian's RabbitMQ while it boots, runs, is low on memory and on disk space, and stops.
func TestReal(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	b := broker{servers.StartRabbitMQ(t, servers.RabbitMQOptions{CA: ca}), t, ca}
	b.bootsWhileWaitedFor()
	b.answers()
	b.raisesAlarms()
	b.limits()
	b.Kill(t)
	b.is("amqp://APPADDR", failure.Refused, "connection refused")
}

func (b broker) bootsWhileWaitedFor() {
	b.t.Helper()
	var logs servers.Output
	o := target.Options{Log: slog.New(slog.NewTextHandler(&logs, nil)), AttemptTimeout: 10 * time.Second}
	check, err := waitfor.Parse("amqp://app@"+b.Addr+"?password="+url.QueryEscape(servers.RabbitMQPassword)+"#queue=jobs&exchange=events", o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), servers.Patience)
	defer cancel()
	if err := waitfor.All(ctx, o, check); err != nil {
		b.t.Fatal(err)
	}
	if text := logs.String(); !strings.Contains(text, "connection refused") || !strings.Contains(text, "ready after") {
		b.t.Errorf("the log of a wait while it boots is\n%s", text)
	}
	b.becomes("amqps://TLSADDR", "") // opens after the other port
}

func (b broker) answers() {
	b.t.Helper()
	const authentication, unexpected = failure.Authentication, failure.Unexpected
	client := b.ca.Client(b.t, "app")
	certificate := "#cert-file=" + client.CertFile + "&key-file=" + client.KeyFile
	for _, test := range []struct {
		target string
		class  failure.Class
		text   string // "" for ready
	}{
		{"amqp://ADDR", "", ""},
		{"amqp://127.0.0.1:1,ADDR", "", ""},
		{"amqp://APPADDR", "", ""},
		{"amqp://APPADDR//", "", ""},
		{"amqp://APPADDR/%2F", "", ""},
		{"amqp://APPADDR/a%2Fb", "", ""},
		{"amqp://APPADDR/nope", unexpected, "NOT_ALLOWED - vhost nope not found"},
		{"amqp://APPADDR/closed", authentication, "NOT_ALLOWED - access to vhost 'closed' refused for user 'app'"},
		{"amqp://IDLEADDR", authentication, "refused for user 'idle'"},
		{"amqp://app:wrong@ADDR", authentication, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"},
		{"amqp://absent:hUnter2tIger9@ADDR", authentication, "ACCESS_REFUSED"},
		{"amqp://APPADDR#queue=jobs", "", ""},
		{"amqp://APPADDR#queue=jobs&queue=late&exchange=events", unexpected, "NOT_FOUND - no queue 'late' in vhost '/'"},
		{"amqp://APPADDR#exchange=late", unexpected, "NOT_FOUND - no exchange 'late' in vhost '/'"},
		{"amqp://APPADDR/a%2Fb#queue=jobs", unexpected, "NOT_FOUND - no queue 'jobs' in vhost 'a/b'"},
		{"amqp://APPADDR#no-alarm", "", ""},
		{"amqps://APPTLSADDR", "", ""},
		{"amqps://APPTLSADDR#server-name=other.example", failure.TLS, "TLS"},
		{"amqp://APPTLSADDR#tls", "", ""},
		{"amqps://ADDR", failure.Unexpected, ""},
		{"amqps://TLSADDR?auth_mechanism=external" + certificate, "", ""},
		{"amqps://TLSADDR?auth_mechanism=external", authentication, "ACCESS_REFUSED"},
		{"amqp://ADDR?auth_mechanism=external", authentication, "not support the login mechanism EXTERNAL"},
	} {
		if test.target == "amqps://ADDR" { // its answer to TLS varies
			if b.check(test.target) == nil {
				b.t.Error("accepts TLS on the port without TLS")
			}
			continue
		}
		b.is(test.target, test.class, test.text)
	}
}

// raisesAlarms pins that a check for alarms reports one, and leaves no connections behind.
func (b broker) raisesAlarms() {
	b.t.Helper()
	b.Control(b.t, "set_vm_memory_high_watermark", "0.00001")
	b.becomes("amqp://APPADDR#no-alarm", "the broker accepts no messages: low on memory")
	b.is("amqp://APPADDR#queue=jobs", "", "")
	b.Control(b.t, "set_disk_free_limit", "999999999999999")
	b.Control(b.t, "set_vm_memory_high_watermark", "0.4")
	b.becomes("amqp://APPADDR#no-alarm", "the broker accepts no messages: low on disk")
	b.Control(b.t, "set_disk_free_limit", "1000000")
	b.becomes("amqp://APPADDR#no-alarm", "")
	if messages := strings.TrimSpace(b.Control(b.t, "list_queues", "--no-table-headers", "name", "messages")); messages != "jobs\t0" {
		b.t.Errorf("after asking for alarms, the queues have messages: %q", messages)
	}
}

func (b broker) limits() {
	b.t.Helper()
	b.Control(b.t, "set_vhost_limits", "-p", "a/b", `{"max-connections": 0}`)
	b.becomes("amqp://APPADDR/a%2Fb", "connection limit")
	b.Control(b.t, "set_user_limits", "app", `{"max-connections": 0}`)
	b.becomes("amqp://APPADDR", "connection limit")
	b.is("amqp://ADDR", "", "")
	b.Control(b.t, "eval", `rabbit_vhost_sup_sup:stop_and_delete_vhost(<<"a/b">>).`)
	b.Control(b.t, "clear_vhost_limits", "-p", "a/b")
	b.Control(b.t, "clear_user_limits", "app", "all")
	b.becomes("amqp://APPADDR/a%2Fb", "vhost 'a/b' is down")
}
