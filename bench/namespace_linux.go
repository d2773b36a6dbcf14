package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"syscall"
)

// A namespace is a network namespace of this process's own. It has no name and
// vanishes with the last thread, process and socket in it.
type namespace struct {
	jobs   chan func()
	ipPath string
}

// newNamespace leaves one thread in a new network namespace. Routing holeNet to the loopback interface makes its
// packets come back as from outside, for an address that this host does not have: the kernel drops them without a word.
func newNamespace(ctx context.Context, b *bench) (*namespace, error) {
	ip, ok := b.tools["ip"]
	if !ok {
		return nil, fmt.Errorf("%w: ip is not installed", errSkipped)
	}
	n := &namespace{jobs: make(chan func()), ipPath: ip.path}
	entered := make(chan error)
	go func() {
		// Never unlocked: the runtime ends a changed thread with its goroutine.
		runtime.LockOSThread()
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		entered <- err
		if err != nil {
			return
		}
		for job := range n.jobs {
			job()
		}
	}()
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("%w: a network namespace: %w", errSkipped, err)
	}
	err := errors.Join(
		n.ip(ctx, "link", "set", "lo", "up"),
		n.ip(ctx, "address", "add", holeOwner+"/32", "dev", "lo"),
		n.ip(ctx, "route", "add", holeNet, "dev", "lo", "src", holeOwner),
	)
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// do runs f on the thread that is in the namespace: what it starts or opens is in there too.
func (n *namespace) do(f func() error) error {
	done := make(chan error)
	n.jobs <- func() { done <- f() }
	return <-done
}

func (n *namespace) close() { close(n.jobs) }

func (n *namespace) listen(addr string) (l net.Listener, err error) {
	err = n.do(func() error {
		l, err = net.Listen("tcp4", addr)
		return err
	})
	return l, err
}

func (n *namespace) ip(ctx context.Context, args ...string) error {
	return n.do(func() error {
		out, err := exec.CommandContext(ctx, n.ipPath, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	})
}
