package command

import (
	"context"
	"os"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/podinfo"
	"initbox/internal/stage"
	"initbox/internal/words"
	"initbox/pki/trust"
)

const trustBundleName = "trust-bundle"

func trustBundle(e *env) *cli.Command {
	var (
		o   trust.Options
		out outputFlags
	)
	return &cli.Command{
		Usage:     "collect CA certificates into the trust stores that programs read",
		ArgsUsage: "SRC[#SETTINGS]…",
		Description: `Reads the certificates of each SRC: roots (Mozilla's, in this binary), system (those of
the image), a file or a folder (PEM, DER, a Java key store or PKCS#12, recognised by its
bytes), k8s:configmap/NAME, k8s:secret/NAME or k8s:clustertrustbundle/NAME. Writes each
certificate once, into every output. Objects of the cluster are waited for. What is right
already is not written again. In paths, # is written %23.

In the fragment of a SRC: #password-file=FILE has the password of this store, without
which it is changeit; #key=NAME takes only this key of a ConfigMap or Secret, and may be
repeated; #optional leaves the SRC out if it is missing.

Examples:
  initbox trust-bundle roots /certs/ca --pem /trust/ca-certificates.crt
  initbox trust-bundle system /etc/company.pem --jks /trust/cacerts --hash-dir /trust/certs
  initbox trust-bundle '/old/ts.jks#password-file=/run/pw' --pkcs12 /trust/ts.p12
  initbox trust-bundle roots 'k8s:configmap/ca#key=ca.crt&optional' --pem /trust/ca.crt`,
		Flags: append([]cli.Flag{
			textFlag("pem", "`FILE` with all certificates as PEM, as for SSL_CERT_FILE", categoryFiles, &o.PEM),
			textFlag("jks", "`FILE` that is a Java key store, as for javax.net.ssl.trustStore", categoryFiles, &o.JKS),
			textFlag("pkcs12", "`FILE` in PKCS#12, for Java and others", categoryFiles, &o.PKCS12),
			textFlag("hash-dir", "`DIR` with a file for each certificate and OpenSSL's links by hash, as for SSL_CERT_DIR", categoryFiles, &o.HashDir),
			textFlag("password-file", "`FILE` with the password of the stores that are written (default: the password changeit)", categoryFiles, &o.PasswordFile),
			textFlag("password-env", "`NAME` of the environment variable that has it instead", categoryFiles, &o.PasswordEnv),
			onFlag("drop-expired", "leave out certificates that have expired", categoryFiles, &o.DropExpired),
			onFlag("dry-run", "say what would change", categoryFiles, &o.DryRun),
			textFlag("kubeconfig", "`FILE` that says where the cluster is, as for kubectl (default: $KUBECONFIG, or the Pod's own cluster)", categoryFiles, &o.Cluster.Kubeconfig),
			textFlag("context", "`NAME` of the kubeconfig file's context", categoryFiles, &o.Cluster.Context),
		}, out.flags(categoryFiles, "0644")...),
		Action: e.action(func(c *cli.Context) (work, error) {
			for _, text := range c.Args().Slice() {
				source, err := trust.ParseSource(text)
				if err != nil {
					return nil, usagef("%s: %w", failure.Printable(text), err)
				}
				o.Sources = append(o.Sources, source)
			}
			for _, flag := range []string{"pem", "jks", "pkcs12", "hash-dir", "password-file"} {
				if err := unreplaced("--"+flag, c.String(flag)); err != nil {
					return nil, err
				}
			}
			if err := o.Check(); err != nil {
				return nil, usageError{err}
			}
			if err := out.check(); err != nil {
				return nil, err
			}
			o.Mode, o.Follow = out.of(0o644), out.follow
			o.UID, o.GID = out.ids()
			o.Getenv, o.Cluster.Getenv, o.Seed, o.Log = os.Getenv, os.Getenv, podinfo.Seed(), e.log
			e.needs = append(e.needs, o.Permissions()...)
			return func(ctx context.Context) error { return e.trustBundle(ctx, o) }, nil
		}),
	}
}

// trustBundle writes the stores, and logs what was done to each.
func (e *env) trustBundle(ctx context.Context, o trust.Options) error {
	var done []trust.Written
	err := untilDone(ctx, func() (err error) {
		done, err = trust.Run(ctx, o)
		return err
	})
	if ctx.Err() != nil && err != nil {
		return err // done may still be written to
	}
	for _, w := range done {
		if w.InPlace && !o.DryRun {
			e.log.Warn(stage.InPlace(w.Path), failure.Fields(failure.Printable(w.Path), 0, nil))
		}
		e.log.Info(w.String(), failure.Fields(failure.Printable(w.Path), w.Took, nil))
	}
	if err == nil && !o.DryRun {
		e.warnNowhere(words.Each(done, func(w trust.Written) string { return w.Path })...)
	}
	return err
}
