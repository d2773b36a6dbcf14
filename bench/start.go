package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// startWaiters are run with everything ready. hello is the yardstick: the least that a program in Go does.
var startWaiters = []waiter{
	{name: hello, tool: hello, args: []string{"{tool}"}},
	{name: oursSleep, tool: ours, args: []string{"{tool}", "sleep", "0"}},
	initbox("initbox, file", "wait-for-service", "file:///"),
	initbox("initbox, http", "wait-for-service", "http://{web}/"),
	initbox(oursTCP, "wait-for-service", "tcp://{addr}"),
	initbox("initbox, tcp without --hold", "wait-for-service", "tcp://{addr}", "--hold", "0s"),
	wait4x("tcp", "{addr}"),
	dockerize("tcp://{addr}"),
	{name: "nc", tool: "nc", args: []string{"{tool}", "-z", "-w", "2", "{host}", "{port}"}},
	{name: "busybox nc", tool: "busybox", args: []string{"{tool}", "sh", "-c", "{tool} nc -w 2 {host} {port} </dev/null"}},
	{name: "curl, http", tool: "curl", args: []string{"{tool}", "-fsS", "-o", "/dev/null", "http://{web}/"}},
	{name: "busybox wget, http", tool: "busybox", args: []string{"{tool}", "wget", "-q", "-O", "/dev/null", "http://{web}/"}},
}

const (
	hello     = "bare Go hello-world"
	oursSleep = "initbox sleep 0"
	oursTCP   = "initbox, tcp"
)

// A cost is what one run from start to exit took.
type cost struct{ wall, cpu sample }

func start(ctx context.Context, b *bench) (*section, error) {
	if err := b.buildHello(ctx); err != nil {
		return nil, err
	}
	tcp, _ := tcpService(b, 1)
	web, _ := httpService(b, 2)
	for _, s := range []*service{tcp, web} {
		if err := s.open(); err != nil {
			return nil, err
		}
		defer s.close()
	}
	vars := tcp.vars
	vars["web"] = web.vars["addr"]
	costs, err := b.runReady(ctx, vars)
	if err != nil {
		return nil, err
	}
	return startReport(b, costs), nil
}

// runReady runs the waiters one at a time, in another order in each round.
func (b *bench) runReady(ctx context.Context, vars map[string]string) (map[string]*cost, error) {
	waiters := b.present(startWaiters)
	costs := map[string]*cost{}
	for _, w := range waiters {
		costs[w.name] = new(cost)
	}
	random := rand.New(rand.NewPCG(7, 8))
	for range b.rounds() {
		for _, i := range random.Perm(len(waiters)) {
			w := waiters[i]
			p, err := b.start(ctx, w.argv(b.tools[w.tool].path, vars))
			if err != nil {
				return nil, err
			}
			<-p.done
			if p.err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, p.err)
			}
			c := costs[w.name]
			c.wall, c.cpu = append(c.wall, p.exited.Sub(p.started)), append(c.cpu, p.cpu())
		}
	}
	return costs, nil
}

func (b *bench) rounds() int { return 2 * b.trials }

// helloSource prints what every first program prints.
const helloSource = `package main

import "fmt"

func main() { fmt.Println("hello, world") }
`

// buildHello builds the yardstick as initbox is built, and adds it to the tools.
func (b *bench) buildHello(ctx context.Context) error {
	dir := filepath.Join(b.dir, "hello")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"main.go": helloSource, "go.mod": "module hello\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "hello", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of the bare program: %w: %s", err, out)
	}
	b.tools[hello] = tool{name: hello, path: filepath.Join(dir, "hello")}
	return nil
}

func startReport(b *bench, costs map[string]*cost) *section {
	s := &section{
		title: "Start to exit with everything ready",
		about: fmt.Sprintf("%d runs each, one at a time and interleaved, medians; cpu is user and system time. "+
			"A tcp target is ready once its connection has stayed open for 20 ms (`--hold`), which is most of that row.", b.rounds()),
	}
	bare := costs[hello].wall.median()
	t := table{{"command", "wall", "wall p90", "× hello-world", "cpu"}}
	for _, w := range b.present(startWaiters) {
		c := costs[w.name]
		t = append(t, []string{w.name, human(c.wall.median()), human(c.wall.percentile(0.9)),
			ratio(float64(c.wall.median()), float64(bare)), human(c.cpu.median())})
	}
	s.tables = append(s.tables, t)
	for _, w := range b.present(startWaiters) {
		if w.tool == ours {
			s.targets = append(s.targets, startTargets(w.name, costs[w.name], bare)...)
		}
	}
	return s
}

func startTargets(name string, c *cost, bare time.Duration) []target {
	wall, cpu := c.wall.median(), c.cpu.median()
	return []target{
		{"start to exit, " + name, "3 × hello-world (" + human(3*bare) + ")", human(wall), wall <= 3*bare},
		{"cpu, " + name, "4 ms", human(cpu), cpu <= 4*time.Millisecond},
	}
}

// size measures what a node has to pull.
func size(_ context.Context, b *bench) (*section, error) {
	s := &section{
		title: "Size",
		about: "The binary, and the image layer that holds it alone (tar, gzip at level 9).",
	}
	t := table{{"binary", "bytes", "layer", "× initbox"}}
	var mine int64
	for _, name := range []string{ours, "wait4x", "dockerize", "grpc_health_probe", "kubectl", "busybox", "curl"} {
		f, ok := b.tools[name]
		if !ok {
			continue
		}
		bytes, layer, err := layerSize(f.path)
		if err != nil {
			return nil, err
		}
		if name == ours {
			mine = layer
			s.targets = []target{
				{"size of the binary", "23 MB", megabytes(bytes), bytes <= 23e6},
				{"size of the compressed layer", "9.5 MB", megabytes(layer), layer <= 9.5e6},
			}
		}
		t = append(t, []string{name, strconv.FormatInt(bytes, 10), megabytes(layer), ratio(float64(layer), float64(mine))})
	}
	s.tables = append(s.tables, t)
	return s, nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }
