package convert

import (
	"maps"
	"path"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/internal/certs"
)

// keytoolActions are what keytool may be called for, with the options that it may have then.
// https://docs.oracle.com/en/java/javase/25/docs/specs/man/keytool.html
var keytoolActions = map[string]struct {
	options string
	run     func(k *files, call *shell.Call, g given) ([]Step, error)
}{
	"importcert":     {"alias=; file=; trustcacerts; keystore=; storetype=; storepass=; storepass:env=; storepass:file=", (*files).importCert},
	"importkeystore": {"srckeystore=; srcstoretype=; srcstorepass=; srcstorepass:env=; srcstorepass:file=; srckeypass=; srcalias alias=; keystore destkeystore=; storetype deststoretype=; storepass deststorepass=; storepass:env deststorepass:env=; storepass:file deststorepass:file=; destkeypass=; destalias=", (*files).importKeyStore},
}

func (k *files) keytool(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	if len(call.Set) > 0 {
		return nil, &shell.Error{Word: call.Set[0].Name, Why: "a variable that may change what keytool does"}
	}
	for i, w := range call.Args {
		text, _ := w.Literal()
		action, dash := strings.CutPrefix(text, "-")
		if action == "import" {
			action = "importcert"
		}
		if known, found := keytoolActions[action]; found && dash {
			g, err := optionsOf("noprompt; v; " + known.options).readGo(slices.Delete(slices.Clone(call.Args), i, i+1))
			if err == nil && len(g.args) > 0 {
				err = &shell.Error{Word: "keytool", Why: "with an argument that is not understood"} // it may be a password
			}
			if err != nil {
				return nil, err
			}
			return known.run(k, call, g)
		}
	}
	return nil, &shell.Error{Word: "keytool", Why: "neither -importcert nor -importkeystore, which initbox has replacements for"}
}

// importCert adds a certificate to a store.
func (k *files) importCert(call *shell.Call, g given) ([]Step, error) {
	file := g.get("file")
	if file == nil && call.Stdin != nil {
		file = call.Stdin.File
	}
	switch {
	case !g.has("noprompt"):
		return nil, &shell.Error{Word: "keytool", Why: "without -noprompt, it asks"}
	case file == nil || !g.has("keystore"):
		return nil, &shell.Error{Word: "keytool", Why: "without -file or -keystore"}
	}
	places, err := k.placesOf([]shell.Word{file, g.get("keystore")}, call)
	if err != nil {
		return nil, err
	}
	from, to := places[0], places[1]
	if from.pattern != "" && g.get("alias").String() != file.String() { // as in a loop over files
		return nil, stop(from.word, "a pattern, where keytool reads one file")
	}
	password, err := k.password(call, "-storepass", optionForms(g, "storepass"))
	if err != nil {
		return nil, err
	}
	s, err := k.format(g, to)
	if err != nil {
		return nil, err
	}
	before, found := k.storeAt(to)
	var steps []Step
	switch {
	case found && before.key != nil:
		steps, err = k.trusts(g, before, from, to, password)
	case found && before.from != nil && (len(password) > 0 || !trustStore(*before.from)):
		return nil, stop(to.word, "a copy of a store that is not certainly one of certificates alone, with the password changeit")
	case !found && to.mount == nil:
		err = k.target(to)
	case !found && k.kinds[to.value] != absent && !k.untouched(to):
		return nil, stop(to.word, "a store that exists already, whose content is not known")
	default:
		steps, err = k.trust(to, []location{from}, found, append(password, Flag{s.name, to.text})...)
	}
	if err != nil {
		return nil, err
	}
	for i := range steps {
		alias, _ := g.get("alias").Literal()
		if name := path.Base(from.value); !strings.EqualFold(alias, strings.TrimSuffix(name, path.Ext(name))) {
			steps[i].differs("the alias of a certificate is the name of its file, and not that of -alias: only a program that asks for it by alias would notice")
		}
		steps[i].differs("all certificates in "+from.value+" are trusted, of which keytool takes the first", s.differs)
	}
	return steps, nil
}

// trustStore reports whether a store has only certificates, by its name.
func trustStore(p location) bool {
	name := strings.ToLower(path.Base(p.value))
	return strings.Contains(name, "cacerts") || strings.Contains(name, "trust")
}

// trusts adds certificates to a store with a key that the script has made.
func (k *files) trusts(g given, before store, from, to location, password []Flag) ([]Step, error) {
	ca := slices.IndexFunc(before.key, func(f Flag) bool { return f.Name == "ca-file" })
	alias, known := g.get("alias").Literal()
	switch {
	case !slices.Equal(password, before.password):
		return nil, stop(to.word, "made by an earlier command with another password")
	case !known || slices.ContainsFunc(before.key, func(f Flag) bool { return f.Name == "alias" && strings.EqualFold(f.Value, alias) }):
		return nil, stop(g.get("alias"), "the alias of the key, whose certificate that may be")
	case ca >= 0 && before.key[ca].Value != from.text:
		return nil, stop(from.word, "a second file of certificates beside the key")
	case ca < 0:
		before.key = append(slices.Clone(before.key), Flag{"ca-file", from.text})
	}
	steps, err := k.keyStore(before, []location{from}, to)
	for i := range steps {
		s := steps[i]
		steps[i].appends = func(t Step) Step {
			s.Inside = s.Inside || t.Inside
			s.differs(t.Differs...)
			s.appends = nil
			return s
		}
	}
	return steps, err
}

// keyStore returns the step that makes a store with a key. One that is in no volume is only remembered.
func (k *files) keyStore(st store, sources []location, to location) ([]Step, error) {
	for _, from := range sources {
		err := k.read(&Step{}, from)
		if made := from.mount == nil && k.kinds[from.value] != unknown; err != nil || made || from.pattern != "" || k.updated != nil && from.isBundle() || strings.ContainsAny(from.value, "#%") {
			return nil, stop(from.word, "not one file that is there when keystore runs")
		}
		st.inside = st.inside || k.inImage(from)
	}
	if to.slash || to.pattern != "" || k.kind(to) == directory {
		return nil, stop(to.word, "not the name of a file")
	}
	k.made(to, file)
	k.stores[to.value] = st
	if k.unread = nil; to.mount == nil {
		return nil, nil
	}
	if err := k.target(to); err != nil {
		return nil, err
	}
	s := Step{Subcommand: "keystore", Writes: true, writes: to.value, Inside: st.inside, Why: "keystore makes a store of the same key and certificates"}
	s.Flags = slices.Concat(st.key, st.password)
	if st.mode != "0600" {
		s.Flags = append(s.Flags, Flag{"mode", st.mode})
	}
	s.Flags = append(s.Flags, Flag{st.format, to.text})
	if slices.ContainsFunc(st.key, func(f Flag) bool { return f.Name == "ca-file" }) {
		s.differs("the store trusts the certificates of --ca-file, too, and they complete the chain of the key up to its root")
	}
	s.differs(st.differs, "a certificate that did not issue another one of the chain is left out of it")
	s.differs(k.linkNote(to)...)
	if err := k.replaces(copying{}, to, &s); err != nil {
		return nil, err
	}
	return []Step{s}, nil
}

// exportPKCS12 is openssl pkcs12 -export: https://docs.openssl.org/3.5/man1/openssl-pkcs12/
func (k *files) exportPKCS12(call *shell.Call, g given) ([]Step, error) {
	if !g.has("export") || !g.has("in") || !g.has("out") || len(g.args) > 0 {
		return nil, &shell.Error{Word: "openssl pkcs12", Why: "not -export with -in and -out"}
	}
	st := store{format: "pkcs12", mode: "0600"}
	var sources []location
	var err error
	add := func(flag string, w shell.Word) {
		if w == nil || err != nil {
			return
		}
		var p location
		p, err = k.place(w, call)
		sources, st.key = append(sources, p), append(st.key, Flag{flag, p.text})
	}
	add("cert-file", g.get("in"))
	add("key-file", g.get("inkey"))
	add("ca-file", g.get("certfile"))
	if g.has("chain") {
		if g.has("certfile") || !g.has("CAfile") {
			return nil, &shell.Error{Word: "-chain", Why: "without -CAfile, or with -certfile"}
		}
		add("ca-file", g.get("CAfile"))
	}
	if err != nil {
		return nil, err
	}
	alias := "1" // as Java calls it
	if g.has("name") {
		if alias, err = k.alias(g.get("name")); err != nil {
			return nil, err
		}
	}
	st.key = append(st.key, Flag{"alias", alias})
	if st.password, err = k.password(call, "-passout", opensslForm(g.get("passout"))); err != nil {
		return nil, err
	}
	to, err := k.place(g.get("out"), call)
	if err != nil {
		return nil, err
	}
	return k.keyStore(st, sources, to)
}

// alias returns a word that names a key.
func (k *files) alias(w shell.Word) (string, error) {
	text, err := arg(w, k.c)
	if err == nil && text == "" {
		err = &shell.Error{Word: "''", Why: "an alias without a name"}
	}
	return text, err
}

// importKeyStore copies a store: one with a key that the script has made, or the certificates of a JDK.
func (k *files) importKeyStore(call *shell.Call, g given) ([]Step, error) {
	if !g.has("srckeystore") || !g.has("keystore") {
		return nil, &shell.Error{Word: "keytool", Why: "without -srckeystore or -destkeystore"}
	}
	places, err := k.placesOf([]shell.Word{g.get("srckeystore"), g.get("keystore")}, call)
	if err != nil {
		return nil, err
	}
	from, to := places[0], places[1]
	s, err := k.format(g, to)
	if err != nil {
		return nil, err
	}
	var passwords [][]Flag
	for _, name := range []string{"storepass", "srcstorepass", "srckeypass", "destkeypass"} {
		if forms := optionForms(g, name); forms.word != nil || len(passwords) < 2 {
			password, err := k.password(call, "-"+name, forms)
			if err != nil {
				return nil, err
			}
			passwords = append(passwords, password)
		}
	}
	st, found := k.storeAt(from)
	switch {
	case k.kinds[to.value] != absent && !k.untouched(to) && to.mount != nil:
		return nil, stop(to.word, "a store that exists already, whose content is not known")
	case !found && trustStore(from) && len(passwords[1]) == 0 && !g.has("srcalias"):
		steps, err := k.trust(to, []location{from}, false, append(passwords[0], Flag{s.name, to.text})...)
		for i := range steps {
			steps[i].differs(s.differs)
		}
		return steps, err
	case !found || st.key == nil:
		return nil, stop(from.word, "a store that the script has not made, and that may have a key")
	case slices.ContainsFunc(append(passwords, st.password), func(f []Flag) bool { return !slices.Equal(f, passwords[0]) }):
		return nil, stop(to.word, "its password is not that of the source and of the key")
	}
	st.key, st.format, st.differs, st.mode = slices.Clone(st.key), s.name, s.differs, "0644"
	i := slices.IndexFunc(st.key, func(f Flag) bool { return f.Name == "alias" })
	if w := g.get("srcalias"); w != nil {
		if text, err := arg(w, k.c); err != nil || !strings.EqualFold(text, st.key[i].Value) {
			return nil, stop(w, "not the alias of the key")
		}
	}
	if w := g.get("destalias"); w != nil {
		if st.key[i].Value, err = k.alias(w); err != nil {
			return nil, err
		}
	}
	return k.keyStore(st, nil, to)
}

// storeFormat is the flag of a format, and what is different.
type storeFormat struct{ name, differs string }

// format returns the format of a store that keytool makes.
func (k *files) format(g given, to location) (storeFormat, error) {
	name, _ := g.get("storetype").Literal()
	switch {
	case strings.EqualFold(name, "jks"):
		return storeFormat{name: "jks"}, nil
	case strings.EqualFold(name, "pkcs12"):
		return storeFormat{name: "pkcs12"}, nil
	case g.has("storetype"):
		return storeFormat{}, stop(g.get("storetype"), "a type of store that initbox does not have")
	case slices.Contains([]string{".p12", ".pfx", ".pkcs12"}, strings.ToLower(path.Ext(to.value))):
		return storeFormat{"pkcs12", "the store is PKCS#12, which keytool of Java 8 does not make by default"}, nil
	}
	return storeFormat{"jks", "the store is JKS, which every Java reads whatever type it is told; keytool of Java 9 and later makes PKCS#12 by default"}, nil
}

// passwordForm is how a password is given: in a file, in the variable of a name, or as it is.
type passwordForm struct {
	form string // file, env, or pass
	word shell.Word
}

// optionForms returns that of an option of keytool.
func optionForms(g given, name string) passwordForm {
	all := map[string]shell.Word{"pass": g.get(name), "env": g.get(name + ":env"), "file": g.get(name + ":file")}
	maps.DeleteFunc(all, func(_ string, w shell.Word) bool { return w == nil })
	for form, w := range all {
		if len(all) == 1 {
			return passwordForm{form, w}
		}
	}
	return passwordForm{}
}

// opensslForm returns that of a word such as pass:TEXT.
func opensslForm(w shell.Word) passwordForm {
	form, _, found := strings.Cut(leading(w), ":")
	if !found {
		return passwordForm{}
	}
	return passwordForm{form, behind(w, len(form)+1)}
}

// password returns the flag for a password; none for the usual one. Messages do not have the word, which may be it.
func (k *files) password(call *shell.Call, option string, given passwordForm) ([]Flag, error) {
	w := given.word
	refused := func(why string) error { return &shell.Error{Word: option, Why: why} }
	name, plain := w.Literal()
	switch {
	case len(w) == 0:
		return nil, refused("it is missing, so that the program would ask for it, or given more than once")
	case given.form == "file":
		p, err := k.place(w, call)
		if err == nil && (p.mount == nil || p.pattern != "" || strings.ContainsAny(p.value, "#%")) {
			err = stop(w, "not a file in a volume, with the password")
		}
		return []Flag{{"password-file", p.text}}, err
	case given.form == "env" && plain:
		w = shell.Word{{Env: name}}
	case given.form != "pass":
		return nil, refused("a form of password that is not understood")
	}
	if text, ok := known(w, k.c); ok && text == certs.DefaultPassword {
		return nil, nil
	}
	if len(w) != 1 || w[0].Env == "" || w[0].Default != nil {
		return nil, refused("a password that is in the script: initbox takes it from a file or a variable, so set it in env, from a Secret")
	}
	switch v := lookup(w[0].Env, k.c); {
	case v.origin == uncertain:
		return nil, refused("the variable " + w[0].Env + ": " + v.why)
	case v.origin == nowhere || v.origin == inManifest && v.value == "":
		return nil, refused("the variable " + w[0].Env + " is not set, or is empty")
	}
	return []Flag{{"password-env", w[0].Env}}, nil
}
