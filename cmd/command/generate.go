package command

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/perm"
	"initbox/internal/podinfo"
	"initbox/internal/secret"
	"initbox/internal/suggest"
	"initbox/pki/generate"
)

// Categories of generate's flags.
const (
	categoryPassword    = "Passwords, tokens and hashes"
	categoryKey         = "Keys"
	categoryCertificate = "Certificates"
	categorySecret      = "Secret of the cluster"
)

// generated are the values of WHAT, and the flags that are for some of them only.
var generated = []struct{ what, flags string }{
	{"password", "length alphabet min-classes"},
	{"token", "bytes encoding"},
	{"uuid", ""},
	{"key", "algorithm key-format comment public"},
	{"certificate", "algorithm key-format subject dns ip service pod cluster-domain pod-info pod-env valid-for is-ca ca-cert-file ca-key-file ca-key-password-file force renew"},
	{"htpasswd", "user password-file cost"},
	{"bcrypt", "password-file cost"},
	{"dhparam", "group"},
}

// generateFlags are the values of the flags.
type generateFlags struct {
	what, out string

	length, classes, bytes, cost          int
	alphabet, encoding, user, file, group string
	algorithm, format, comment            string
	public, force, dry                    bool
	certificate                           generate.CertificateOptions
	dns, ips, services                    cli.StringSlice
	pod                                   bool
	caKeyPassword, domain                 string
	podInfo                               podFlags
	secret, ownerReference                string
	renew                                 bool
	labels, annotations                   cli.StringSlice
	place                                 kube.Place
	output                                outputFlags
}

func generateCommand(e *env) *cli.Command {
	f := generateFlags{
		length: 32, bytes: 32, cost: 10, alphabet: generate.DefaultAlphabet, encoding: "hex", group: "ffdhe2048",
		format: "pkcs8", domain: "cluster.local", certificate: generate.CertificateOptions{ValidFor: 365 * 24 * time.Hour},
	}
	return &cli.Command{
		Usage:     "make a password, a token, a key or a certificate, if it is not there",
		ArgsUsage: "WHAT [OUT]",
		Description: `Makes WHAT in the file OUT: a password, token, uuid, key, certificate, htpasswd,
bcrypt or dhparam. What is there stays. A certificate is the directory OUT with tls.crt,
tls.key and ca.crt, or one file if OUT ends in .pem; it is made again when less than a
third of its time is left, or its names or its CA are others.

With --secret, all Pods get the same: the first one creates the Secret, the others
write what it has to OUT, which may be left out.

Examples:
  initbox generate password /run/app/password --length 24 --min-classes 3
  initbox generate password --secret k8s:secret/db#key=password
  initbox generate key /ssh/ssh_host_ed25519_key --key-format openssh
  initbox generate certificate /tls --service web --pod --ca-cert-file /ca/tls.crt --ca-key-file /ca/tls.key
  initbox generate htpasswd /auth/htpasswd --user admin --password-file /secret/password`,
		Flags: slices.Concat(f.flags(), f.output.flags(categoryFiles, "0600"), []cli.Flag{
			onFlag("dry-run", "say what would change", categoryFiles, &f.dry),
		}),
		Action: e.action(func(c *cli.Context) (work, error) { return f.check(e, c) }),
	}
}

func (f *generateFlags) flags() []cli.Flag {
	count := func(name, usage, category string, dst *int) cli.Flag {
		return &cli.IntFlag{Name: name, Usage: usage, Category: category, Destination: dst, Value: *dst}
	}
	list := func(names []string) string { return strings.Join(names, ", ") }
	o := &f.certificate
	return append([]cli.Flag{
		count("length", "`N` characters of a password", categoryPassword, &f.length),
		textFlag("alphabet", "`CHARACTERS` of a password, with ranges as in A-Z; a hyphen stands at the end", categoryPassword, &f.alphabet),
		count("min-classes", "a password has characters of `N` of the classes capital letters, small letters, digits and others", categoryPassword, &f.classes),
		count("bytes", "`N` random bytes of a token", categoryPassword, &f.bytes),
		textFlag("encoding", "`NAME` of a token's encoding: "+list(generate.Encodings), categoryPassword, &f.encoding),
		textFlag("password-file", "`FILE` with the password to hash; for htpasswd without --user, lines USER:PASSWORD", categoryPassword, &f.file),
		textFlag("user", "`NAME` in an htpasswd file; lines of other users stay", categoryPassword, &f.user),
		count("cost", "`N` of bcrypt: each one more doubles the time of a login", categoryPassword, &f.cost),

		textFlag("algorithm", "`NAME`: "+list(generate.Algorithms())+" (default ed25519, for a certificate ecdsa)", categoryKey, &f.algorithm),
		textFlag("key-format", "`NAME`: "+list(generate.KeyFormats), categoryKey, &f.format),
		onFlag("public", "write the public key, too, to OUT.pub; openssh always does", categoryKey, &f.public),
		textFlag("comment", "`TEXT` in an openssh key", categoryKey, &f.comment),
		textFlag("group", "`NAME` of the group of RFC 7919 for dhparam: "+list(generate.Groups()), categoryKey, &f.group),

		textFlag("subject", "`NAME` as in CN=web,O=Company; by default the first name of the certificate", categoryCertificate, &o.Subject),
		textsFlag("dns", "`NAME` that the certificate is for", categoryCertificate, &f.dns),
		textsFlag("ip", "`ADDR` that the certificate is for, or several joined by commas", categoryCertificate, &f.ips),
		textsFlag("service", "`NAME` of a Service of the Pod's namespace, for whose names the certificate is: NAME, NAME.NAMESPACE, NAME.NAMESPACE.svc …", categoryCertificate, &f.services),
		onFlag("pod", "the certificate is for the Pod's names, in its headless Service too, and for its addresses", categoryCertificate, &f.pod),
		textFlag("cluster-domain", "`DOMAIN` of the cluster, for --service", categoryCertificate, &f.domain),
		durationFlag("valid-for", "how long a new certificate is valid; 8760h is a year", categoryCertificate, &o.ValidFor),
		onFlag("is-ca", "the certificate may sign others", categoryCertificate, &o.IsCA),
		textFlag("ca-cert-file", "`FILE` with the CA that signs the certificate, and the chain above it; by default it signs itself", categoryCertificate, &o.CACertFile),
		textFlag("ca-key-file", "`FILE` with the CA's key", categoryCertificate, &o.CAKeyFile),
		textFlag("ca-key-password-file", "`FILE` with the password of that key", categoryCertificate, &f.caKeyPassword),
		onFlag("force", "make also a certificate again that initbox did not make", categoryCertificate, &f.force),

		textFlag("secret", "`TARGET`, as k8s:secret/NAME#key=KEY, that is created if it is missing, and else used", categorySecret, &f.secret),
		onFlag("renew", "replace a certificate in a Secret that initbox has created", categorySecret, &f.renew),
		textFlag("owner-reference", "`KIND/NAME` with which Kubernetes removes the Secret, as in statefulset/db", categorySecret, &f.ownerReference),
		textsFlag("label", "`KEY=VALUE` of a new Secret", categorySecret, &f.labels),
		textsFlag("annotation", "`KEY=VALUE` of a new Secret", categorySecret, &f.annotations),
		textFlag("kubeconfig", "`FILE` that says where the cluster is, as for kubectl (default: $KUBECONFIG, or the Pod's own cluster)", categorySecret, &f.place.Kubeconfig),
		textFlag("context", "`NAME` of the kubeconfig file's context", categorySecret, &f.place.Context),
	}, f.podInfo.flags(categoryCertificate)...)
}

// check reads the command line.
func (f *generateFlags) check(e *env, c *cli.Context) (work, error) {
	if err := f.arguments(c); err != nil {
		return nil, err
	}
	if err := f.output.check(); err != nil {
		return nil, err
	}
	if err := f.names(); err != nil {
		return nil, err
	}
	source, err := f.podInfo.source(e)
	if err != nil {
		return nil, err
	}
	maker, err := f.maker(f.certificate)
	if err != nil {
		return nil, usagef("--%w", err) // it begins with the name of the flag
	}
	uid, gid := f.output.ids()
	o := generate.Options{
		Make: maker, Out: f.out, Mode: f.output.of(0o600), Owner: perm.Owner{UID: uid, GID: gid},
		Follow: f.output.follow, DryRun: f.dry, Force: f.force, Log: e.log,
	}
	if o.Secret, err = f.secretOf(maker); err != nil {
		return nil, err
	}
	if o.Secret != nil {
		e.needs = append(e.needs, o.Secret.Permissions()...)
	}
	return func(ctx context.Context) error {
		err := untilDone(ctx, func() (err error) {
			if f.pod || len(f.services.Value()) > 0 {
				if o.Make, err = f.ofPod(source); err != nil {
					return err
				}
			}
			return generate.Run(ctx, o)
		})
		if err != nil {
			return err
		}
		if !o.DryRun {
			e.warnNowhere(o.Out)
		}
		return nil
	}, nil
}

// arguments checks WHAT, OUT and which flags are for it.
func (f *generateFlags) arguments(c *cli.Context) error {
	args := c.Args().Slice()
	names := make([]string, len(generated))
	for i, g := range generated {
		names[i] = g.what
	}
	if len(args) == 0 {
		return usagef("what? want one of %s", strings.Join(names, ", ")).hint("as in: initbox generate password /run/app/password")
	}
	i := slices.Index(names, args[0])
	switch f.what = args[0]; {
	case i < 0:
		return usagef("%s cannot be made", failure.Printable(f.what)).hint(suggest.Question(f.what, names, "") + "want one of " + strings.Join(names, ", "))
	case len(args) > 2:
		return usagef("more than WHAT and OUT: %s", failure.Printable(args[2]))
	case len(args) == 2:
		f.out = args[1]
	case f.secret == "":
		return usagef("where? no file OUT and no --secret is given").hint("as in: initbox generate " + f.what + " /run/app/" + f.what)
	}
	if err := unreplaced("OUT", f.out); err != nil {
		return err
	}
	if len(args) == 2 && (f.out == "" || f.what != "certificate" && strings.HasSuffix(f.out, "/")) {
		return usagef("OUT is the file to write, with its name").hint("is a variable not set?")
	}
	o := f.certificate
	for _, file := range []string{f.file, o.CACertFile, o.CAKeyFile, f.caKeyPassword} {
		clean := filepath.Clean(file)
		if file != "" && f.out != "" && (clean == filepath.Clean(f.out) || clean == filepath.Join(f.out, "ca.crt")) {
			return usagef("%s would be replaced with what is made of it", failure.Printable(file)).hint("name another OUT")
		}
	}
	for _, g := range generated {
		for flag := range strings.FieldsSeq(g.flags) {
			if isSet(c, flag) && !slices.Contains(strings.Fields(generated[i].flags), flag) {
				return usagef("--%s is not for %s, but for %s", flag, f.what, g.what)
			}
		}
	}
	if f.what == "certificate" && len(given(c, "subject", "dns", "ip", "service", "pod")) == 0 {
		return usagef("whose certificate? no name is given").hint("give --dns, --ip, --service, --pod or --subject")
	}
	return needs(c, [][2]string{{"renew", "secret"}, {"owner-reference", "secret"}, {"label", "secret"}, {"annotation", "secret"}, {"ca-cert-file", "ca-key-file"}, {"ca-key-file", "ca-cert-file"}, {"ca-key-password-file", "ca-key-file"}})
}

// names reads whom a certificate is for, and whether it is one file.
func (f *generateFlags) names() error {
	f.certificate.OneFile = strings.HasSuffix(f.out, ".pem") || f.out == "" && strings.Contains(f.secret, "#")
	f.certificate.DNS = f.dns.Value()
	for _, text := range f.ips.Value() {
		for word := range strings.SplitSeq(text, ",") {
			addr, err := netip.ParseAddr(strings.TrimSpace(word))
			if err != nil || addr.Zone() != "" {
				return usagef("--ip %s: want an address such as 10.0.0.1 or fd00::1", failure.Printable(text)).
					hint("the kubelet replaces $(POD_IP) only if the container has the variable")
			}
			f.certificate.IPs = append(f.certificate.IPs, addr)
		}
	}
	return nil
}

// maker returns what makes WHAT.
func (f *generateFlags) maker(o generate.CertificateOptions) (m generate.Maker, err error) {
	switch f.what {
	case "password":
		return generate.NewPassword(f.length, f.alphabet, f.classes)
	case "token":
		return generate.NewToken(f.bytes, f.encoding)
	case "htpasswd":
		return generate.NewHtpasswd(f.user, f.file, f.cost)
	case "bcrypt":
		return generate.NewBcrypt(f.file, f.cost)
	case "dhparam":
		return generate.NewDHParam(f.group)
	case "key":
		return generate.NewKey(cmp.Or(f.algorithm, "ed25519"), f.format, f.comment, f.public)
	case "certificate":
		if o.Key, err = generate.NewKey(cmp.Or(f.algorithm, "ecdsa"), f.format, "", false); err != nil {
			return nil, err
		}
		if f.caKeyPassword != "" {
			o.CAKeyPassword = func() ([]byte, error) {
				password, err := secret.Read(f.caKeyPassword)
				return []byte(password), err
			}
		}
		return generate.NewCertificate(o)
	}
	return generate.NewUUID(), nil
}

// ofPod returns the maker of a certificate that is also for the names and addresses of the Pod and of its Services.
func (f *generateFlags) ofPod(source podinfo.Source) (generate.Maker, error) {
	o := f.certificate
	o.DNS, o.IPs = slices.Clone(o.DNS), slices.Clone(o.IPs)
	pod, err := source.Read()
	if err != nil {
		return nil, err
	}
	for _, service := range f.services.Value() {
		if pod.Namespace == "" {
			return nil, failure.WithHint(fmt.Errorf("--service %s: the Pod's namespace is not known", service), "add to the container:\n"+source.Stanza("Namespace"))
		}
		for _, name := range []string{"", "." + pod.Namespace, "." + pod.Namespace + ".svc", "." + pod.Namespace + ".svc." + f.domain} {
			o.DNS = append(o.DNS, service+name)
		}
	}
	if f.pod {
		names, addrs, err := podinfo.Hosts()
		if err != nil {
			return nil, err
		}
		if len(pod.IPs) > 0 {
			addrs = pod.IPs
		}
		if len(addrs) == 0 {
			return nil, failure.WithHint(fmt.Errorf("--pod: the Pod's addresses are not known: /etc/hosts has none for its host name"), "add to the container:\n"+source.Stanza("IPs"))
		}
		o.DNS, o.IPs = append(o.DNS, names...), append(o.IPs, addrs...)
	}
	return f.maker(o)
}

// secretOf returns the Secret that --secret names, or nil.
func (f *generateFlags) secretOf(m generate.Maker) (*generate.Secret, error) {
	if f.secret == "" {
		return nil, nil
	}
	if err := unreplaced("--secret", f.secret); err != nil {
		return nil, err
	}
	s, err := generate.ParseSecret(f.secret, m)
	if err != nil {
		return nil, usagef("--secret: %w", err)
	}
	if f.ownerReference != "" {
		if s.Owner, err = generate.ParseOwner(f.ownerReference); err != nil {
			return nil, usagef("--owner-reference %s: %w", failure.Printable(f.ownerReference), err)
		}
	}
	if s.Labels, err = pairs("label", f.labels.Value()); err != nil {
		return nil, err
	}
	if s.Annotations, err = pairs("annotation", f.annotations.Value()); err != nil {
		return nil, err
	}
	s.Renew, s.Seed = f.renew, podinfo.Seed()
	place := f.place
	place.Getenv = os.Getenv
	var client *kube.Client
	s.Connect = func() (*kube.Client, error) {
		if client != nil {
			return client, nil
		}
		config, err := place.Config()
		if err != nil {
			return nil, err
		}
		client = kube.New(config, kube.Options{Dial: dial.New(nil).DialContext, Seed: s.Seed})
		return client, nil
	}
	return s, nil
}

// pairs reads the values KEY=VALUE of a flag.
func pairs(flag string, texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return nil, usagef("--%s %s: want KEY=VALUE", flag, failure.Printable(text))
		}
		all[key] = value
	}
	return all, nil
}
