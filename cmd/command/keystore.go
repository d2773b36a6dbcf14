package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/internal/sidecar"
	"initbox/internal/stage"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
	"initbox/pki/keystore"
)

const (
	categoryStores  = "Stores"
	categoryKeyPair = "Key and certificates"
)

func keystoreCommand(e *env) *cli.Command {
	o := keystore.Options{Alias: keystore.DefaultAlias}
	var (
		out  outputFlags
		side sidecarFlags
	)
	return &cli.Command{
		Usage: "put a key and its certificates into the stores of Java and of other programs",
		Description: `Makes PKCS#12 and JKS stores, or one file in PEM, of a key and its certificates, such as
those of a Secret of type kubernetes.io/tls. The key is checked against its certificate,
and the chain is put in order and completed with --ca-file, which the stores also trust.
A store that is right already is left alone; a renewed Secret gives a new store, at the
next run or with --watch.

Examples:
  initbox keystore --cert-file /tls/tls.crt --key-file /tls/tls.key --ca-file /tls/ca.crt \
    --pkcs12 /stores/keystore.p12 --password-file /etc/stores/password
  initbox keystore --cert-file /tls/tls.crt --key-file /tls/tls.key --jks /stores/keystore.jks --alias server
  initbox keystore --cert-file /tls/tls.crt --key-file /tls/tls.key --pem /stores/both.pem --mode 0640`,
		Flags: slices.Concat([]cli.Flag{
			textFlag("cert-file", "`FILE` of the certificate and those that issued it, as PEM or DER", categoryKeyPair, &o.CertFile),
			textFlag("key-file", "`FILE` of its key, as PKCS#8, PKCS#1 or SEC 1, if not in the same file", categoryKeyPair, &o.KeyFile),
			textFlag("key-password-file", "`FILE` with the password of an encrypted key", categoryKeyPair, &o.KeyPasswordFile),
			textFlag("ca-file", "`FILE` or folder of certificates that complete the chain, and that the stores trust", categoryKeyPair, &o.CAFile),
			textFlag("pkcs12", "`FILE` to write as PKCS#12", categoryStores, &o.PKCS12),
			textFlag("jks", "`FILE` to write as Java key store, for programs that need the older format", categoryStores, &o.JKS),
			textFlag("pem", "`FILE` to write with the key and its chain as PEM", categoryStores, &o.PEM),
			textFlag("alias", "`NAME` of the key in the stores", categoryStores, &o.Alias),
			textFlag("password-file", "`FILE` with the password of the stores (default changeit); with it, the key in --pem is encrypted, too", categoryStores, &o.PasswordFile),
			textFlag("password-env", "`NAME` of the environment variable that has it instead", categoryStores, &o.PasswordEnv),
			onFlag("dry-run", "say what would change", categoryStores, &o.DryRun),
		}, out.flags(categoryStores, "0600"), side.flags(sidecarTexts{
			look: "look for a renewed certificate, key or password at least this often", changed: "a store has changed",
			revision: "a checksum of the certificates", there: "the stores are there",
		})),
		Action: e.action(func(c *cli.Context) (work, error) {
			if c.NArg() > 0 {
				return nil, usagef("takes no argument, got %s", failure.Printable(c.Args().First())).hint("as in: initbox keystore --cert-file tls.crt --key-file tls.key --pkcs12 /stores/keystore.p12")
			}
			for _, flag := range []string{"cert-file", "key-file", "key-password-file", "ca-file", "pkcs12", "jks", "pem", "password-file"} {
				if err := unreplaced("--"+flag, c.String(flag)); err != nil {
					return nil, err
				}
			}
			if err := out.check(); err != nil {
				return nil, err
			}
			o.Follow, o.Attr.Mode = out.follow, out.of(0o600)
			o.Attr.UID, o.Attr.GID = out.ids()
			o.Getenv = os.Getenv
			if err := o.Check(); err != nil {
				return nil, usageError{err}
			}
			hook, err := e.checkStay(c, &side, o)
			if err != nil {
				return nil, err
			}
			var size atomic.Int64
			look := e.keystore(o, &size)
			return func(ctx context.Context) error {
				if side.watch > 0 {
					options := side.options(hook, e.log)
					options.Metrics = written(size.Load)
					return e.stay(ctx, options, side.watch, look)
				}
				_, _, err := look(ctx)
				return err
			}, nil
		}),
	}
}

// checkStay checks the flags of the sidecar, and returns its webhook. What the stores trust, it trusts too.
func (e *env) checkStay(c *cli.Context, side *sidecarFlags, o keystore.Options) (*sidecar.Webhook, error) {
	if err := needs(c, [][2]string{{"touch", "watch"}, {"webhook-url", "watch"}}); err != nil {
		return nil, err
	}
	if err := side.check(c); err != nil {
		return nil, err
	}
	if o.DryRun && side.watch > 0 {
		return nil, usagef("--dry-run and --watch are mutually exclusive")
	}
	return side.webhook(e, &resolver.Resolver{}, tlsconfig.Options{CAFile: o.CAFile})
}

// keystore returns a function that writes the stores, adds their size to size, and logs what it does to each. After the
// first success, it logs changes only.
func (e *env) keystore(o keystore.Options, size *atomic.Int64) func(context.Context) (revision string, changed bool, err error) {
	first := true
	return func(ctx context.Context) (string, bool, error) {
		start := time.Now()
		var r keystore.Result
		err := untilDone(ctx, func() (err error) {
			r, err = keystore.Run(o)
			return err
		})
		if err != nil {
			return "", false, err
		}
		size.Add(r.Size())
		if first || r.Changed() {
			e.logStores(o, r, time.Since(start))
		}
		first = false
		return r.Revision, r.Changed(), nil
	}
}

func (e *env) logStores(o keystore.Options, r keystore.Result, took time.Duration) {
	for _, text := range r.Warnings {
		e.log.Warn(text)
	}
	doing := map[stage.Kind]string{stage.Unchanged: "nothing to change", stage.Created: "created", stage.Changed: "changed"}
	if o.DryRun {
		doing[stage.Created], doing[stage.Changed] = "would be created", "would be changed"
	}
	for _, f := range r.Files {
		if f.InPlace {
			e.log.Warn(stage.InPlace(f.Path))
		}
		e.log.Info(fmt.Sprintf("%s: %s: %s, in %s", failure.Printable(f.Path), doing[f.Kind], r.Content, words.Seconds(took)), failure.Fields(failure.Printable(f.Path), took, nil))
	}
	if !o.DryRun {
		e.warnNowhere(o.PKCS12, o.JKS, o.PEM)
	}
}
