package waitfor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"initbox/internal/poll"
	"initbox/internal/resolver"
)

// Class is the one word for a kind of failure, the same in every log line.
type Class string

// Classes of failure. None of them is permanent: each can heal while the
// cluster is still being put together.
const (
	NoSuchName     Class = "no such name"
	NoData         Class = "no data"
	ServerFailure  Class = "server failure" // of a name server
	Refused        Class = "refused"
	Unreachable    Class = "unreachable"
	TimedOut       Class = "timed out"
	Reset          Class = "reset"
	TLS            Class = "TLS"
	Unexpected     Class = "unexpected answer"
	Authentication Class = "authentication"
	Missing        Class = "missing" // a file, a socket, a secret
	Local          Class = "local"   // this side: permissions, file descriptors
)

// Failure is why a target is not ready.
type Failure struct {
	Class Class
	Text  string // what was found; a change of it is a change of the target's state
	Note  string // what differs from attempt to attempt, such as a countdown; may be empty
	Hint  string // what to do about it; may be empty
	Err   error  // the cause; may be nil

	urgent    bool // the hint is to be told at once, since it is for somebody else to act on
	elsewhere bool // it is of another server than the target: a proxy, or where a redirect leads
}

func (f *Failure) Error() string {
	if f.Note == "" {
		return f.Text
	}
	return f.Text + " (" + f.Note + ")"
}

func (f *Failure) Unwrap() error { return f.Err }

func failure(class Class, format string, args ...any) *Failure {
	return &Failure{Class: class, Text: fmt.Sprintf(format, args...)}
}

// classify makes a Failure of any error of a check. The texts are its own: what
// libraries say may quote the URL with its password.
func classify(err error) *Failure {
	f := *classOf(err)
	f.Text, f.Note = printable(f.Text), printable(f.Note)
	var address *addressError
	if errors.As(err, &address) && f.Note == "" {
		f.Note = "at " + address.addr
	}
	return &f
}

// printable makes a text with parts that others wrote fit for a log line: a
// certificate's name may hold line breaks, terminal sequences or a novel.
func printable(s string) string {
	const limit = 1000
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

func classOf(err error) *Failure {
	var (
		known    *Failure
		hung     *poll.Hung
		lookup   *resolver.Failure
		urlErr   *url.Error
		record   tls.RecordHeaderError
		netErr   net.Error
		opErr    *net.OpError
		pathErr  *fs.PathError
		withHint = func(f *Failure, hint string) *Failure { f.Hint, f.Err = hint, err; return f }
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &lookup):
		return classifyLookup(lookup, err)
	case errors.As(err, &hung):
		text := "no answer"
		if hung.Doing != "" {
			text = hung.Doing + ": no answer"
		}
		f := failure(TimedOut, "%s", text)
		f.Note = "for " + seconds(hung.For)
		if strings.HasPrefix(hung.Doing, resolver.Asking) {
			return withHint(f, "is the cluster's DNS running, and may this Pod reach it? look for a NetworkPolicy that forbids DNS (port 53, UDP and TCP)")
		}
		return withHint(f, "something swallows the packets or the server hangs: look for a NetworkPolicy, a firewall or an overloaded server")
	case errors.Is(err, syscall.ECONNREFUSED):
		return withHint(failure(Refused, "connection refused"), "nothing listens there yet: is the server running, and is it the right port?")
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &opErr) && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EINVAL)):
		// The last two are what routes of type prohibit and blackhole say.
		return withHint(failure(Unreachable, "no route to the host"), "is the Pod's network up, and does the cluster have this address family?")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return withHint(failure(Local, "too many open files"), "raise the limit on open files, or wait for fewer targets at once")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return withHint(failure(Reset, "connection reset by the server"), proxyHint)
	}
	if cert := certificateProblem(err); cert != nil {
		cert.Err = err
		return cert
	}
	switch {
	case errors.As(err, &opErr) && opErr.Op == "remote error": // as crypto/tls calls an alert
		return withHint(failure(TLS, "TLS: the server refused the handshake (%s)", strings.TrimPrefix(opErr.Err.Error(), "tls: ")), certificateHint)
	case errors.As(err, &record):
		return withHint(failure(TLS, "TLS: the server does not speak TLS on this port"), "use the scheme without TLS, or the server's TLS port")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return withHint(failure(TimedOut, "timed out"), "")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return withHint(failure(Reset, "connection closed by the server"), "is it the right port, with TLS or without as the server wants it?")
	case errors.As(err, &urlErr):
		return classOf(urlErr.Err) // url.Error quotes the URL
	case errors.As(err, &pathErr):
		return withHint(failure(Local, "%s %s: %v", pathErr.Op, pathErr.Path, pathErr.Err), "")
	}
	return withHint(failure(Unexpected, "%v", err), "")
}

// certificateHint is what to do about a server that ends the TLS handshake.
const certificateHint = "does the server ask for a client certificate? see --cert-file and --key-file"

func classifyLookup(lookup *resolver.Failure, err error) *Failure {
	e := lookup.Most()
	f := &Failure{Class: Class(e.Kind), Text: e.Error(), Err: err}
	for _, other := range lookup.Tried {
		if !e.Kind.Gone() && other.Kind == resolver.NoData { // the name that was meant, probably
			f.Note = other.Error()
		}
	}
	switch e.Kind {
	case resolver.NoSuchName, resolver.NoData:
		if e.Cached > 0 {
			f.Note = fmt.Sprintf("cached for %.0f s", math.Ceil(e.Cached.Seconds()))
		}
		f.Hint = "does the Service exist, in this namespace, under this name?"
		if names := lookup.Names(); len(names) > 1 {
			f.Hint += " " + plural(len(names), "name") + " were tried: " + list(names)
		}
	case resolver.ServerFailure:
		f.Hint = "the name server " + e.Server + " is there but cannot answer: look at its log"
	case resolver.Refused:
		f.Hint = "nothing listens at " + e.Server + ": is the cluster's DNS running, and is the address right?"
		if e.Detail == "REFUSED" {
			f.Hint = "the name server " + e.Server + " is there but does not answer for this name: is it the cluster's, and may this Pod ask it?"
		}
	default:
		f.Hint = "is the cluster's DNS running, and may this Pod reach " + e.Server + "?"
	}
	return f
}

// certificateProblem names what is wrong with the server's certificate, or
// returns nil if that is not it.
func certificateProblem(err error) *Failure {
	var (
		verify  *tls.CertificateVerificationError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &host):
		f := failure(TLS, "TLS: the certificate is not for %s but for %s", host.Host, list(certificateNames(host.Certificate)))
		f.Hint = "use a name from the certificate, or give the expected one with --server-name"
		return f
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if now := time.Now(); now.Before(invalid.Cert.NotBefore) {
			return failure(TLS, "TLS: the certificate is not valid before %s", invalid.Cert.NotBefore.Format(time.RFC3339))
		}
		f := failure(TLS, "TLS: the certificate expired on %s", invalid.Cert.NotAfter.Format(time.RFC3339))
		f.Hint = "renew the certificate; if it looks valid, compare the clocks"
		return f
	case errors.As(err, &unknown):
		f := failure(TLS, "TLS: the certificate is signed by an unknown authority")
		if unknown.Cert != nil {
			f.Text += " (" + unknown.Cert.Issuer.String() + ")"
		}
		f.Hint = "give the authority's certificate with --ca-file"
		return f
	case errors.As(err, &verify):
		return failure(TLS, "TLS: %v", verify.Err)
	}
	return nil
}

func certificateNames(c *x509.Certificate) []string {
	if c == nil {
		return nil
	}
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = append(names, "no name at all")
	}
	return names
}
