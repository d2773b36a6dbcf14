// Package failure classifies the errors of attempts: each [Failure] has a class, a text and
// a hint, so that the log of a stuck Pod reads like a diagnosis.
//
// [Of] makes a Failure of any error; [New] makes one that [Of] returns unchanged. [WithHint]
// adds a hint to an error that needs no class.
package failure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/words"
)

// Class is the one word for a kind of failure, the same in every log line.
type Class string

// Classes of failure. None of them is permanent: each can heal while the cluster is still being put together.
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
	DiskFull       Class = "disk full"
	HostKey        Class = "host key" // of SSH
	NoRepository   Class = "no such repository"
	NoRevision     Class = "no such revision"
)

// Failure is why an attempt did not succeed.
type Failure struct {
	Class Class
	Text  string // what was found; a change of it is a change of the state, and news
	Note  string // what differs from attempt to attempt, such as a countdown; may be empty
	Hint  string // what to do about it; may be empty
	Role  string // the end of the hint, if that is a manifest with a Role to apply
	Err   error  // the cause; may be nil

	Urgent    bool // the hint is logged at once, not with the next summary
	Elsewhere bool // another server failed than the target: a proxy, or the one that a redirect leads to
}

func (f *Failure) Error() string {
	if f.Note == "" {
		return f.Text
	}
	return f.Text + " (" + f.Note + ")"
}

func (f *Failure) Unwrap() error { return f.Err }

// NoSpace reports whether err says that a disk or a quota is full.
func NoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// New makes a failure of a class, with a text made as by fmt.Sprintf.
func New(class Class, format string, args ...any) *Failure {
	return &Failure{Class: class, Text: fmt.Sprintf(format, args...)}
}

// Of returns the failure of any error of a connection, a lookup, a file or a wait. Its text
// does not quote the error of a library, which may have a URL with a password.
func Of(err error) *Failure {
	f := *classOf(err)
	f.Text, f.Note = Printable(f.Text), Printable(f.Note)
	var address *addressError
	if errors.As(err, &address) && f.Note == "" {
		f.Note = "at " + address.addr
	}
	return &f
}

// At returns err with addr, one of several addresses of a host, to which the connection failed.
func At(addr string, err error) error { return &addressError{err, addr} }

// addressError is an error of the connection to one of a host's addresses.
type addressError struct {
	error
	addr string
}

func (e *addressError) Unwrap() error { return e.error }

func classOf(err error) *Failure {
	if f := known(err); f != nil {
		return f
	}
	f := New(Unexpected, "%v", err)
	f.Err = err
	return f
}

// known returns the failure of an error of a known kind, or nil.
func known(err error) *Failure {
	var (
		failed   *Failure
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
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed
	case errors.As(err, &lookup):
		return ofLookup(lookup, err)
	case errors.As(err, &hung):
		return ofHung(hung, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return withHint(New(Refused, "connection refused"), "nothing listens there yet: is the server running, and is it the right port?")
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.As(err, &opErr) && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EINVAL)):
		// The last two come from routes of type prohibit and blackhole.
		return withHint(New(Unreachable, "no route to the host"), "is the Pod's network up, and does the cluster have this address family?")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return withHint(New(Local, "too many open files"), "raise the limit on open files, or wait for fewer targets at once")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f := New(Reset, "connection closed by the server") // which of the two errors comes is chance, if the server has not read all of the request
		f.Note = "reset"
		return withHint(f, closedHint)
	}
	if cert := certificateProblem(err); cert != nil {
		cert.Err = err
		return cert
	}
	switch {
	case errors.As(err, &opErr) && opErr.Op == "remote error": // as crypto/tls calls an alert
		return withHint(New(TLS, "TLS: the server refused the handshake (%s)", strings.TrimPrefix(opErr.Err.Error(), "tls: ")), certificateHint)
	case errors.As(err, &record):
		return withHint(New(TLS, "TLS: the server does not speak TLS on this port"), "use the scheme without TLS, or the server's TLS port")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return withHint(New(TimedOut, "timed out"), "")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return withHint(New(Reset, "connection closed by the server"), closedHint)
	case errors.As(err, &urlErr):
		return classOf(urlErr.Err) // url.Error quotes the URL
	case errors.As(err, &pathErr):
		return withHint(New(ofFile(err), "%s %s: %v", pathErr.Op, pathErr.Path, pathErr.Err), "")
	}
	return nil
}

// hasty is a time after which the lack of an answer means nothing yet: a signal may end a wait that has just begun.
const hasty = 250 * time.Millisecond

// ofHung returns the failure of an attempt that has not answered.
func ofHung(hung *poll.Hung, err error) *Failure {
	f := &Failure{Class: TimedOut, Text: "no answer", Note: "for " + words.Seconds(hung.For), Err: err}
	if hung.Doing != "" {
		f.Text = hung.Doing + ": no answer"
	}
	switch {
	case hung.For < hasty:
	case strings.HasPrefix(hung.Doing, resolver.Asking):
		f.Hint = "is the cluster's DNS running, and may this Pod reach it? look for a NetworkPolicy that forbids DNS (port 53, UDP and TCP)"
	case hung.Doing == "running the query":
		f.Hint = "does the query wait for a lock, or take longer than an attempt may (--attempt-timeout)?"
	case hung.Doing == "" || strings.HasPrefix(hung.Doing, "connecting to "):
		f.Hint = "packets are dropped or the server hangs: look for a NetworkPolicy, a firewall or an overloaded server"
	default:
		f.Hint = "the server hangs, or something else listens there: is it the right port, and does the server expect TLS on it? look at its log"
	}
	return f
}

// ofFile returns the class of an error of an operation on a file.
func ofFile(err error) Class {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing
	case NoSpace(err):
		return DiskFull
	}
	return Local
}

// AcceptHint is the hint for a server that accepts a connection and then closes it.
const AcceptHint = "a proxy or load balancer accepts connections before its server is ready: are there ready endpoints behind it?"

// closedHint is the hint for a server that closes the connection after a request.
const closedHint = "is it the right port, and does the server expect TLS on it? " + AcceptHint

// certificateHint is the hint for a server that ends the TLS handshake.
const certificateHint = "does the server ask for a client certificate? see --cert-file and --key-file"

// ofLookup returns the failure of the most telling error of a lookup.
func ofLookup(lookup *resolver.Failure, err error) *Failure {
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
			f.Hint += " " + words.Plural(len(names), "name") + " were tried: " + words.List(names)
		}
	case resolver.ServerFailure:
		f.Hint = "the name server " + e.Server + " is reachable but cannot answer: look at its log"
	case resolver.Refused:
		f.Hint = "nothing listens at " + e.Server + ": is the cluster's DNS running, and is the address right?"
		if e.Detail == "REFUSED" {
			f.Hint = "the name server " + e.Server + " is reachable but refuses this name: is it the cluster's, and may this Pod query it?"
		}
	default:
		f.Hint = "is the cluster's DNS running, and may this Pod reach " + e.Server + "?"
	}
	return f
}
