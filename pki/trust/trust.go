// Package trust collects CA certificates from where they are, and writes the trust stores that programs read.
//
//	source, err := trust.ParseSource("/certs/ca#optional")
//	...
//	written, err := trust.Run(ctx, trust.Options{
//		Sources: []trust.Source{source, trust.Roots}, PEM: "/trust/ca-certificates.crt", Mode: 0o644, UID: -1, GID: -1,
//	})
package trust

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/internal/secret"
	"initbox/internal/stage"
	"initbox/internal/words"
)

// Options of [Run]. At least one of the outputs is set.
type Options struct {
	Sources      []Source
	PEM          string // files that are written
	JKS          string
	PKCS12       string
	HashDir      string // directory for OpenSSL
	PasswordFile string // of the stores that are written; without it and PasswordEnv, the password is changeit
	PasswordEnv  string // the variable that has it

	DropExpired bool // leave out certificates that have expired
	DryRun      bool // only compare

	Mode     fs.FileMode // of the files
	UID, GID int         // -1: as the kernel sets it
	Follow   bool        // follow symbolic links in volumes

	Cluster kube.Place // where sources of kind k8s are
	Getenv  func(name string) string
	Seed    uint64
	Log     *slog.Logger
}

// Written is what was done, or would be done, to one output.
type Written struct {
	Path    string
	Format  string
	Certs   int  // in it
	Changes int  // files that were created, changed or removed
	Removed int  // those that were removed
	InPlace bool // not atomically: a reader may have seen a part
	DryRun  bool
	Took    time.Duration
}

func (w Written) String() string {
	text := failure.Printable(w.Path) + ": "
	certificates := words.Plural(w.Certs, "certificate")
	switch {
	case w.Changes == 0:
		text += "nothing to change, " + certificates + " as " + w.Format
	case w.DryRun:
		text += certificates + " would be written as " + w.Format
	default:
		text += certificates + " written as " + w.Format
	}
	switch {
	case w.Removed > 0 && w.DryRun:
		text += ", " + words.Plural(w.Removed, "file") + " would be removed"
	case w.Removed > 0:
		text += ", " + words.Plural(w.Removed, "file") + " removed"
	}
	return text + ", in " + words.Seconds(w.Took)
}

// Check returns what is wrong with the options themselves.
func (o Options) Check() error {
	outputs := words.Each(o.outputs(), func(out output) string { return filepath.Clean(out.path) })
	slices.Sort(outputs)
	switch {
	case len(o.Sources) == 0:
		return failure.WithHint(errors.New("no source of certificates given"), "as in: initbox trust-bundle roots /certs/ca --pem /trust/ca-certificates.crt")
	case len(outputs) == 0:
		return failure.WithHint(errors.New("nothing to write"), "give at least one of --pem, --jks, --pkcs12 and --hash-dir")
	case len(slices.Compact(outputs)) < len(outputs):
		return errors.New("two outputs have the same path")
	case o.PasswordFile != "" && o.PasswordEnv != "":
		return errors.New("--password-file and --password-env are mutually exclusive")
	case o.HashDir != "" && slices.ContainsFunc(outputs, func(path string) bool { return filepath.Dir(path) == filepath.Clean(o.HashDir) }):
		return errors.New("the directory of --hash-dir is for its certificates alone: write the other files elsewhere")
	}
	passwords := Source{path: o.PasswordFile, name: o.PasswordFile}
	for _, s := range append(slices.Clone(o.Sources), passwords) {
		if i := slices.IndexFunc(outputs, s.holds); i >= 0 {
			return failure.WithHint(fmt.Errorf("the output %s is in the source %s", failure.Printable(outputs[i]), failure.Printable(s.path)),
				"write it elsewhere: the next run would read it, and keep certificates that the other sources no longer have")
		}
	}
	return nil
}

// Run reads all sources, and then writes the outputs. What is right already is not written again.
func Run(ctx context.Context, o Options) ([]Written, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	password, err := secret.Password(o.PasswordFile, o.PasswordEnv, o.Getenv)
	if err != nil {
		return nil, err
	}
	password = cmp.Or(password, certs.DefaultPassword)
	entries, err := o.collect(ctx)
	if err != nil {
		return nil, err
	}
	var all []Written
	for _, out := range o.outputs() {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		start := time.Now()
		w, err := out.write(o, entries, password)
		if err != nil {
			return all, failure.About(failure.Printable(out.path), err, perm.Failed("write", perm.Write, out.path, err))
		}
		w.Path, w.Format, w.Certs, w.DryRun, w.Took = out.path, out.format, len(entries), o.DryRun, time.Since(start)
		all = append(all, w)
	}
	return all, nil
}

// collect returns the certificates of all sources, each once, and logs what is remarkable about them.
func (o Options) collect(ctx context.Context) ([]certs.Entry, error) {
	objects, err := o.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("read certificates from the cluster: %w", err)
	}
	var all []certs.Entry
	for i, s := range o.Sources {
		var found certs.Found
		var note string
		if there := objects[i]; there != nil {
			found, note = there.result()
		} else if found, note, err = s.read(o.Getenv); err != nil {
			return nil, failure.About(failure.Printable(s.String()), err, err)
		}
		log := o.Log.With(failure.Fields(failure.Printable(s.String()), 0, nil))
		for _, text := range found.Ignored {
			log.Warn(text)
		}
		log.Info(failure.Printable(s.String()) + ": " + words.Plural(len(found.Entries), "certificate") + note)
		all = append(all, found.Entries...)
	}
	distinct := certs.Distinct(all)
	if n := len(all) - len(distinct); n > 0 {
		o.Log.Info(words.Plural(n, "duplicate certificate") + " left out")
	}
	distinct = o.judge(distinct, time.Now())
	if len(distinct) == 0 {
		return nil, errors.New("no certificate found: a trust store without any would refuse every server")
	}
	return distinct, nil
}

// judge logs which certificates have expired and which vouch for no others, and drops the former if that is wanted.
func (o Options) judge(entries []certs.Entry, now time.Time) []certs.Entry {
	var expired, early, leaves []string
	kept := slices.DeleteFunc(entries, func(e certs.Entry) bool {
		name := failure.Printable(e.Alias + " in " + e.Source)
		switch {
		case now.After(e.Cert.NotAfter):
			expired = append(expired, name+" ("+e.Cert.NotAfter.Format(time.DateOnly)+")")
			return o.DropExpired
		case now.Before(e.Cert.NotBefore):
			early = append(early, name+" ("+e.Cert.NotBefore.Format(time.DateOnly)+")")
		}
		if !isCA(e) {
			leaves = append(leaves, name)
		}
		return false
	})
	after := ": programs refuse what they signed; --drop-expired leaves them out"
	if o.DropExpired {
		after = ": left out"
	}
	for _, line := range []struct {
		list        []string
		text, after string
	}{
		{expired, "expired: ", after},
		{early, "not valid yet: ", ""},
		{leaves, "no CA certificate: ", ": a program that trusts it trusts one server, and nothing that it has signed"},
	} {
		if len(line.list) > 0 {
			o.Log.Warn(line.text + words.List(line.list) + line.after)
		}
	}
	return kept
}

// isCA returns whether a certificate may sign others. Those of version 1 do not say, and old roots are such.
func isCA(e certs.Entry) bool {
	return e.Cert.IsCA || e.Cert.Version == 1 && slices.Equal(e.Cert.RawIssuer, e.Cert.RawSubject)
}

// output is one of what is written.
type output struct{ path, format string }

// The formats, as the log names them.
const (
	formatPEM    = "PEM"
	formatJKS    = "JKS"
	formatPKCS12 = "PKCS#12"
	formatHash   = "files by hash"
)

func (o Options) outputs() []output {
	all := []output{{o.PEM, formatPEM}, {o.JKS, formatJKS}, {o.PKCS12, formatPKCS12}, {o.HashDir, formatHash}}
	return slices.DeleteFunc(all, func(out output) bool { return out.path == "" })
}

// files returns what the output consists of.
func (out output) files(entries []certs.Entry, password string) ([]certs.File, error) {
	var data []byte
	var err error
	switch out.format {
	case formatHash:
		return certs.Directory(entries), nil
	case formatJKS:
		data, err = certs.JKS(nil, entries, password)
	case formatPKCS12:
		data, err = certs.PKCS12(nil, entries, password)
	default:
		data = certs.PEM(entries)
	}
	return []certs.File{{Name: filepath.Base(out.path), Content: data}}, err
}

// write puts the files of one output in place. In a directory of its own, those of earlier runs are removed if this one
// does not have them.
func (out output) write(o Options, entries []certs.Entry, password string) (w Written, err error) {
	files, err := out.files(entries, password)
	if err != nil {
		return w, err
	}
	dir, options := filepath.Dir(out.path), stage.Options{DryRun: o.DryRun, Follow: o.Follow}
	if out.format == formatHash {
		dir, options.Prune = out.path, true
	}
	s, err := stage.Open(dir, options)
	if err != nil {
		return w, err
	}
	defer s.Close()
	for _, f := range files {
		if f.Target != "" {
			_, err = s.PutLink(f.Name, f.Target)
		} else {
			_, err = s.Put(f.Name, f.Content, stage.Attr{Mode: o.Mode, UID: o.UID, GID: o.GID})
		}
		if err != nil {
			return w, err
		}
	}
	act := s.Commit
	if o.DryRun {
		act = s.Plan
	}
	changes, err := act()
	w.Changes = len(changes)
	for _, c := range changes {
		if c.Kind == stage.Removed {
			w.Removed++
		}
	}
	w.InPlace = slices.ContainsFunc(changes, func(c stage.Change) bool { return c.InPlace })
	return w, err
}

// Permissions returns what reading the sources needs at the API server.
func (o Options) Permissions() (needs []kube.Permission) {
	for _, s := range o.Sources {
		if s.objects.KindName == "" {
			continue
		}
		p := kube.Permission{
			Cluster: !s.resource.Namespaced, Namespace: s.objects.Namespace, Group: s.resource.Group, Resource: s.resource.Name,
			Verbs: []string{"list"},
		}
		if s.objects.Name != "" {
			p.Names, p.Verbs = []string{s.objects.Name}, []string{"get"}
		}
		needs = append(needs, p)
	}
	return needs
}

// subjectAlias returns an alias for a certificate in a long list, from its subject.
func subjectAlias(cert *x509.Certificate) string {
	of := cert.Subject
	name := cmp.Or(of.CommonName, strings.Join(of.OrganizationalUnit, " "), strings.Join(of.Organization, " "))
	return strings.Join(strings.Fields(name), "-")
}
