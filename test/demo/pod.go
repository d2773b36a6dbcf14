package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A pod runs its init containers as the kubelet would: in order, each after the previous one has succeeded.
type pod struct {
	binary string
	dir    string      // for the files that the kubelet mounts into a Pod's containers
	flags  []string    // that point initbox to those files
	inits  []container // in order
}

type container struct {
	speaker
	args []string
}

// newPod writes the Pod's files. resolv.conf is as written by the kubelet in the namespace "default", without the name
// server: that has its own port here, which resolv.conf cannot contain, so a flag sets it.
func newPod(binary string, c *cluster) (*pod, error) {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "initbox-demo-")
	if err != nil {
		return nil, err
	}
	p := &pod{binary: binary, dir: dir}
	p.flags = []string{
		"--resolv-conf", filepath.Join(dir, "resolv.conf"), "--server", c.dns.addr,
		"--hosts", filepath.Join(dir, "hosts"), "--termination-log", p.terminationLog(),
	}
	p.inits = []container{
		{speaker{"init-myservice", 33}, []string{"wait-for-dns", "myservice"}},
		{speaker{"init-mydb", 35}, []string{"wait-for-service",
			fmt.Sprintf("http://mydb:%d/healthz", c.port), fmt.Sprintf("tcp://mydb:%d", c.port)}},
	}
	return p, p.writeFiles(map[string]string{
		"resolv.conf":     "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
		"hosts":           "127.0.0.1\tlocalhost\n",
		"termination-log": "",
	})
}

func (p *pod) writeFiles(files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return errors.Join(err, p.close())
		}
	}
	return nil
}

func (p *pod) close() error { return os.RemoveAll(p.dir) }

func (p *pod) terminationLog() string { return filepath.Join(p.dir, "termination-log") }

// manifest returns the relevant part of the Pod's manifest.
func (p *pod) manifest() string {
	var b strings.Builder
	fmt.Fprintln(&b, "    initContainers:")
	for _, c := range p.inits {
		fmt.Fprintf(&b, "    - name: %s\n      image: initbox:dev\n      args: [%s]\n", c.name, strings.Join(c.args, ", "))
	}
	return b.String()
}

// run runs the Pod's init containers, until the Pod is running or one of them fails.
func (p *pod) run(ctx context.Context, c *cluster, out *transcript) error {
	kubectl := speaker{"kubectl", 0}
	const columns = "%-9s   %-5s   %-15s   %-8v   %s"
	status := func(ready, status string) {
		out.say(kubectl, columns, "myapp-pod", ready, status, 0, time.Since(out.start).Truncate(time.Second))
	}
	out.say(kubectl, columns, "NAME", "READY", "STATUS", "RESTARTS", "AGE")
	for i, init := range p.inits {
		status("0/1", fmt.Sprintf("Init:%d/%d", i, len(p.inits)))
		if err := p.runInit(ctx, init, c, out); err != nil {
			status("0/1", "Init:Error")
			return err
		}
	}
	status("0/1", "PodInitializing")
	out.say(speaker{"myapp", 32}, "The app is running!")
	status("1/1", "Running")
	return nil
}

// runInit runs one init container to its end.
func (p *pod) runInit(ctx context.Context, init container, c *cluster, out *transcript) error {
	cmd := exec.CommandContext(ctx, p.binary, append(init.args, p.flags...)...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOSTNAME=myapp-pod"} // nothing from the caller's environment, such as a proxy
	log := out.lines(init.speaker)
	cmd.Stdout, cmd.Stderr = log, log
	// Stop as the kubelet does: SIGTERM, and SIGKILL after a while.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second

	out.say(init.speaker, "$ initbox %s", strings.Join(init.args, " "))
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	ended := time.Now()
	log.flush()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return p.failure(init, err)
	}
	out.say(init.speaker, "exit status 0, %d ms after the cluster's last change", ended.Sub(c.lastChange()).Milliseconds())
	return nil
}

// failure describes a failed init container as `kubectl describe pod` does.
func (p *pod) failure(init container, err error) error {
	message, readErr := os.ReadFile(p.terminationLog())
	if readErr != nil || len(message) == 0 {
		return fmt.Errorf("%s: %w", init.name, err)
	}
	return fmt.Errorf("%s: %w: %s", init.name, err, bytes.TrimSpace(message))
}
