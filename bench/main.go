// Command bench measures initbox beside the tools a user would pick instead: in one run, interleaved, on loopback, so
// that a ratio between two rows means something even where the machine is slow. It prints a Markdown report, and with
// -write keeps it in a page between two markers. docs/benchmarks.md says what each number means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// A benchmark is one section of the report.
type benchmark struct {
	name string // as -only takes it
	run  func(context.Context, *bench) (*section, error)
}

// benchmarks lists them in the order of the report.
var benchmarks = []benchmark{
	{"reaction", reaction},
	{"dns-cache", dnsCache},
	{"black-hole", blackHole},
	{"start", start},
	{"size", size},
	{"memory", memory},
	{"starvation", starvation},
	{"kubernetes", kubernetes},
	{"pods", pods},
	{"databases", databases},
	{"render", renderAll},
	{"prepare", prepareAll},
	{"copy", copyAll},
	{"clone", cloneAll},
	{"fetch", fetchAll},
	{"plugin", plugin},
	{"herd", herd}, // the last: its clients make this process large, which hides the memory of smaller ones
}

// errSkipped is wrapped by the error of a benchmark that cannot run on this machine; the report says so in its place.
var errSkipped = errors.New("not measured")

// atOnce is how many waits run at the same time: they sleep, so two cores carry that.
const atOnce = 32

// bench is what the benchmarks share.
type bench struct {
	tools  map[string]tool // those found, by name
	trials int             // of the reaction benchmark; the others scale with it
	atOnce int             // trials at the same time
	quick  bool            // shorter waits, to try the harness rather than initbox
	dir    string          // for sockets, logs and built programs; removed at the end
	port   int             // free on all of 127.77.0.0/16 and 127.78.0.0/16
	claim  io.Closer       // keeps it so
	clones string          // the repositories of the clone benchmark, as -repositories has them; "" for some that are made
	helm   string          // helm's path, which permits the pods benchmark to use the cluster of $KUBECONFIG; "" for not
	log    io.Writer       // progress

	inside *namespace // if set, where processes are started
}

// options are the command line.
type options struct {
	initbox, only, write, repositories, helm string
	trials                                   int
	quick                                    bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.initbox, "initbox", "bin/initbox", "the binary to measure")
	f.IntVar(&o.trials, "trials", 100, "trials of the reaction benchmark; the others scale with it")
	f.StringVar(&o.only, "only", "", "run only this benchmark: "+strings.Join(names(), ", "))
	f.StringVar(&o.write, "write", "", "also replace the report between the markers in this file, or with -only its one section")
	f.StringVar(&o.repositories, "repositories", "", "clone these bare repositories, [NAME=]DIR,…, in place of some that are made")
	f.StringVar(&o.helm, "helm", "", "the helm for the benchmark pods, which creates Pods in the cluster of $KUBECONFIG: see bench/pods.sh")
	f.BoolVar(&o.quick, "quick", false, "few trials and short waits, within a minute")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.trials < 1 || o.trials > 1000: // each has an address, and there are 40 000 of those
		return o, errors.New("-trials must be from 1 to 1000")
	case o.write != "" && o.quick:
		return o, errors.New("-write wants figures that can be quoted: leave out -quick")
	}
	if o.quick {
		o.trials = min(o.trials, 6)
	}
	_, err := selected(o.only)
	return o, err
}

func names() []string {
	var s []string
	for _, b := range benchmarks {
		s = append(s, b.name)
	}
	return s
}

func selected(only string) ([]benchmark, error) {
	if only == "" {
		return benchmarks, nil
	}
	for _, b := range benchmarks {
		if b.name == only {
			return []benchmark{b}, nil
		}
	}
	return nil, fmt.Errorf("no benchmark %q: there are %s", only, strings.Join(names(), ", "))
}

// run returns 0 for a run that measured, whatever it measured: a missed target is a line of the report. A wait of
// initbox that failed or was never ready ends with 1, as no figure of such a run can be trusted.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == serveGitCommand {
		return serveGit(args[1], os.Stdin, stdout, stderr)
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	began := time.Now()
	todo, err := selected(o.only)
	if err != nil {
		return err
	}
	sections, failure := b.runAll(ctx, todo)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	report := b.render(sections, began, time.Since(began))
	if _, err := io.WriteString(stdout, report); err != nil {
		return err
	}
	if failure != nil || o.write == "" {
		return failure
	}
	replace := func(page string) (string, error) { return replaceReport(page, report) }
	if o.only != "" {
		sections[0].notes = append(sections[0].notes, b.measuredAlone(sections[0], began))
		replace = func(page string) (string, error) { return replaceSection(page, sections[0]) }
	}
	return errors.Join(writePictures(o.write, sections), rewrite(o.write, replace))
}

// runAll runs the benchmarks one after the other. An error of one does not keep the others from being measured.
func (b *bench) runAll(ctx context.Context, todo []benchmark) ([]*section, error) {
	var (
		sections []*section
		failures []error
	)
	for _, m := range todo {
		began := time.Now()
		fmt.Fprintf(b.log, "bench: %s …\n", m.name)
		s, err := m.run(ctx, b)
		if s == nil {
			s = &section{title: m.name}
		}
		if err != nil {
			s.notes = append(s.notes, err.Error())
		}
		if err != nil && !errors.Is(err, errSkipped) {
			failures = append(failures, fmt.Errorf("%s: %w", m.name, err))
		}
		sections = append(sections, s)
		fmt.Fprintf(b.log, "bench: %s took %.1f s\n", m.name, time.Since(began).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	return sections, errors.Join(failures...)
}

func newBench(ctx context.Context, o options, stderr io.Writer) (*bench, error) {
	found, err := findTools(ctx, o.initbox)
	if err != nil {
		return nil, err
	}
	port, claim, err := claimPort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "initbox-bench-")
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return &bench{tools: found, trials: o.trials, atOnce: atOnce, quick: o.quick, dir: dir, port: port, claim: claim, clones: o.repositories, helm: o.helm, log: stderr}, nil
}

func (b *bench) close() {
	b.claim.Close()
	os.RemoveAll(b.dir)
}
