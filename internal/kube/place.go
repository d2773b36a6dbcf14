package kube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Place says where a cluster is.
type Place struct {
	Kubeconfig string // a file; by default that of $KUBECONFIG, or in a Pod what the kubelet mounts
	Context    string // of the file; by default its current one
	Getenv     func(name string) string
}

// Config reads the kubeconfig file that was given or that $KUBECONFIG names, as kubectl does, or else, in a Pod, what
// the kubelet mounts. Its errors are failures with hints.
func (p Place) Config() (*Config, error) {
	getenv := p.Getenv
	file := p.Kubeconfig
	if file == "" {
		file = getenv("KUBECONFIG")
	}
	if home := getenv("HOME"); file == "" && home != "" && getenv("KUBERNETES_SERVICE_HOST") == "" {
		file = filepath.Join(home, ".kube", "config")
		if _, err := os.Stat(file); err != nil {
			file = ""
		}
	}
	switch {
	case file != "":
		config, err := Kubeconfig(file, p.Context)
		if err != nil {
			return nil, kubeconfigFailure(file, err)
		}
		return config, nil
	case getenv("KUBERNETES_SERVICE_HOST") == "":
		return nil, poll.Permanent(failure.New(failure.Local, "there is no cluster here, and no kubeconfig file").
			WithHint("a Pod knows its cluster by $KUBERNETES_SERVICE_HOST; elsewhere give a file with --kubeconfig or $KUBECONFIG"))
	case p.Context != "":
		return nil, poll.Permanent(failure.New(failure.Local, "context needs a kubeconfig file: give one with --kubeconfig"))
	}
	config, err := InCluster(getenv)
	if errors.Is(err, ErrNoToken) {
		return nil, poll.Permanent(noToken(err)) // the kubelet mounts it before it starts a container
	}
	return config, err
}

// kubeconfigFailure returns the failure of a file that may still be mounted or fixed.
func kubeconfigFailure(file string, err error) *failure.Failure {
	f := &failure.Failure{Class: failure.Local, Text: failure.Printable(err.Error()), Err: err, Elsewhere: true}
	var path *fs.PathError
	if errors.As(err, &path) {
		f.Text = failure.Printable("kubeconfig " + file + ": " + path.Err.Error())
		f.Hint = "is the file mounted, and may this user read it?"
	}
	return f
}

// noToken returns the failure of a Pod without the credentials of its service account.
func noToken(err error) *failure.Failure {
	return &failure.Failure{Class: failure.Local, Text: "this Pod has no service account token", Err: err, Elsewhere: true,
		Hint: "set automountServiceAccountToken: true in the Pod's spec, which overrides the service account's; in a container without the mount, add it"}
}
