// Command demo runs the init container example of the Kubernetes documentation without a cluster: a Pod whose two init
// containers wait for the services myservice and mydb, which appear late.
//
// The init containers are real processes of the initbox binary, run one after the other, as by the kubelet. The cluster
// is a name server and a web server on loopback. The output is one transcript of both, and the exit status is 0 if the
// Pod starts running.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// atMost limits the time of the demonstration, in case something never becomes ready.
const atMost = 60 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("initbox", "bin/initbox", "the `binary` to show")
	pace := flags.Duration("pace", 2*time.Second, "time from what an init container logs to the next event in the cluster")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, atMost, fmt.Errorf("the Pod is not running after %v", atMost))
	defer cancel()
	if err := demo(ctx, *binary, *pace, stdout); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}

// demo starts the cluster, runs the Pod, and returns how it ended.
func demo(ctx context.Context, binary string, pace time.Duration, stdout io.Writer) error {
	c, err := newCluster()
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	defer c.close()
	p, err := newPod(binary, c)
	if err != nil {
		return fmt.Errorf("preparing the Pod: %w", err)
	}
	defer p.close()

	fmt.Fprintln(stdout, "The Pod of the Kubernetes documentation's init container example, with a line of")
	fmt.Fprintf(stdout, "initbox for each of its shell loops:\n\n%s\n", p.manifest())
	out := newTranscript(stdout)

	play, cancel := context.WithCancel(ctx)
	played := make(chan error, 1)
	go func() { played <- c.play(play, pace, out) }()
	err = p.run(ctx, c, out)
	cancel()
	if clusterErr := <-played; clusterErr != nil {
		return fmt.Errorf("running the cluster: %w", clusterErr)
	}
	return err
}
