package main

// An image of the table: the same layer as all others, under another name and with another entrypoint.
type image struct {
	Subcommand string // what the image runs, or "" for the one that runs what its arguments say
	What       string // for the label and the annotation org.opencontainers.image.description
}

// table has all images: initbox, and one for each subcommand, in the order of initbox --list. A test compares it with
// what the program prints.
var table = []image{
	{"", "what Kubernetes init containers do, without a shell"},
	{"wait-for-dns", "wait until names resolve"},
	{"wait-for-service", "wait until servers, databases, files and Kubernetes objects are ready"},
	{"request", "send an HTTP request until it succeeds"},
	{"register", "register this Pod with a server, once, however often it runs"},
	{"deregister", "deregister this Pod, as in a preStop hook"},
	{"render", "make configuration files from templates and values, all or none"},
	{"merge", "merge configuration files into one, or join their bytes"},
	{"git-clone", "put one revision of a Git repository into a directory"},
	{"fetch", "download files and archives, check, unpack and put them in place"},
	{"copy", "copy files, directories and mounted ConfigMaps and Secrets into volumes"},
	{"prepare", "make directories, files and links; change owners and modes where they differ"},
	{"sysctl", "set parameters of the kernel, if they are not right already"},
	{"kube-get", "write what the Kubernetes API knows to files"},
	{"generate", "make a password, a token, a key or a certificate, if it is not there"},
	{"trust-bundle", "collect CA certificates into the trust stores that programs read"},
	{"keystore", "put a key and its certificates into the stores of Java and of other programs"},
	{"doctor", "print what this container sees: user, volumes, name servers, API server"},
	{"rbac", "print the Role that the Pod's service account needs"},
	{"sleep", "do nothing for a while, but stop at once on a signal"},
	{"install", "copy this program to a volume, for containers whose image has no initbox"},
}

// name returns the last component of the image's name: initbox, or initbox-SUBCOMMAND.
func (i image) name() string {
	if i.Subcommand == "" {
		return "initbox"
	}
	return "initbox-" + i.Subcommand
}

// entrypoint returns the command that the image runs.
func (i image) entrypoint() []string {
	if i.Subcommand == "" {
		return []string{program}
	}
	return []string{"/" + i.Subcommand}
}

const (
	program = "/bin/initbox" // where the binary lies in the layer
	user    = "65532:65532"
)

// platforms are those that images are built for. The second word is the end of the name of the binary's file; the
// binary for arm is built with GOARM=7.
var platforms = []string{"linux/amd64", "linux/arm64", "linux/arm/v7", "linux/ppc64le", "linux/s390x", "linux/riscv64"}
