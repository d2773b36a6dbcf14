// Package doctor explains why Pods are stuck: who holds each, since when, what that waits for, and what is wrong there.
// It only reads, and goes on without what it may not read.
//
//	client, err := doctor.NewClient(config)
//	report, err := doctor.Diagnose(ctx, client, doctor.Options{Namespace: "shop"})
//	report.Write(os.Stdout)
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
)

// Options says which Pods are examined.
type Options struct {
	Namespace string          // "" means all of them
	Names     []string        // Pods, or KIND/NAME of what runs them; without names, all Pods of the namespace
	Selector  labels.Selector // of the Pods; nil selects all
	Now       func() time.Time
}

// Report is what Diagnose found. Its JSON is documented in docs/kubectl-doctor.md.
type Report struct {
	Time    time.Time `json:"time"`
	Checked int       `json:"checked"` // Pods that were asked for
	Stuck   int       `json:"stuck"`   // those of them that are stuck
	// Pods are the stuck ones, and those that they wait for, in the order in which they are written. Pods of one owner
	// that are stuck in the same way are one entry.
	Pods []*Pod `json:"pods"`
	// Missing are Pods that do not exist, since what should create them cannot.
	Missing []Finding `json:"missing,omitempty"`
	NotRead []string  `json:"notRead,omitempty"`
}

// Found reports whether something is stuck.
func (r *Report) Found() bool { return r.Stuck > 0 || len(r.Missing) > 0 }

// Pod is a Pod that is stuck.
type Pod struct {
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Also       []string   `json:"also,omitempty"`  // other Pods of the owner that are stuck in the same way
	Owner      string     `json:"owner,omitempty"` // what a user edits: Deployment/web
	AskedFor   bool       `json:"askedFor"`        // false: another Pod waits for it
	State      string     `json:"state"`           // Init:1/3, Pending, …
	Since      time.Time  `json:"since,omitzero"`
	Container  string     `json:"container,omitempty"`
	Program    string     `json:"program,omitempty"` // a subcommand of initbox, or the image's or program's name
	Step       int        `json:"step,omitempty"`    // of a chain of Steps: the one that holds the Pod, from 1
	Steps      int        `json:"steps,omitempty"`
	Started    int        `json:"started"`          // how often the container was
	Reason     string     `json:"reason,omitempty"` // CrashLoopBackOff, …
	LastStatus *int32     `json:"lastStatus,omitempty"`
	LastReason string     `json:"lastReason,omitempty"` // what the status means
	LastRan    float64    `json:"lastRanSeconds,omitempty"`
	Message    string     `json:"message,omitempty"`
	Log        []string   `json:"log,omitempty"`
	NextStart  *time.Time `json:"nextStart,omitempty"` // an estimate
	Findings   []Finding  `json:"findings,omitempty"`

	pod       *corev1.Pod
	container *corev1.Container
	status    *corev1.ContainerStatus
	init      bool
	ours      bool   // it runs initbox
	said      string // what may name the step: its termination message, or the last entry of its log
	guessed   bool   // what it waits for was found in a text that is not understood wholly
	path      string // of the container in its owner
	object    *manifest.Object
}

// Finding is one thing that is wrong, or that the Pod waits for.
type Finding struct {
	About string `json:"about"` // a target, a volume, …
	Text  string `json:"text"`
	// Possible says that it may be the reason, which the API server does not know.
	Possible bool     `json:"possible,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Pods     []string `json:"pods,omitempty"` // the Pods of the report that it waits for, as NAMESPACE/NAME
}

// key names the Pod in [Finding.Pods].
func (p *Pod) key() string { return p.Namespace + "/" + p.Name }

// doctor is the course of one diagnosis.
type doctor struct {
	*cluster
	now      time.Time
	byName   bool            // the Pods were asked for by name, or by that of what runs them
	asked    map[string]bool // Pods, by key
	explored map[string]*Pod
	report   *Report
}

const (
	maxGroups = 200 // Pods that are explained; the others are counted
	maxDepth  = 8   // of what holds what
	maxBehind = 3   // Pods behind one Service that are explained
)

// Diagnose examines Pods. It fails if the Pods themselves cannot be listed; what else cannot be read is in
// [Report.NotRead].
func Diagnose(ctx context.Context, client *Client, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &doctor{cluster: newCluster(client), now: o.Now(), byName: len(o.Names) > 0, asked: map[string]bool{}, explored: map[string]*Pod{}}
	d.report = &Report{Time: d.now, Pods: []*Pod{}}
	pods, err := d.find(ctx, o)
	if err != nil {
		return nil, err
	}
	d.report.Checked = len(pods)
	var stuck []*Pod
	for i := range pods {
		if p := d.state(ctx, &pods[i]); p != nil {
			p.AskedFor = true
			d.asked[p.key()] = true
			stuck = append(stuck, p)
		}
	}
	d.report.Stuck = len(stuck)
	groups := group(stuck)
	for i, p := range groups {
		if i >= maxGroups {
			d.report.NotRead = append(d.report.NotRead, fmt.Sprintf("%d more stuck Pods: name them, or their namespace", len(groups)-i))
			break
		}
		d.explain(ctx, p, 0)
	}
	d.missing(ctx, o)
	d.report.NotRead = append(d.report.NotRead, d.notRead()...)
	d.order()
	return d.report, ctx.Err()
}

// explain adds a Pod to the report, unless it is there, and returns the name of its entry.
func (d *doctor) explain(ctx context.Context, p *Pod, depth int) string {
	if known, ok := d.explored[p.key()]; ok {
		return known.key()
	}
	d.explored[p.key()] = p
	for _, name := range p.Also {
		d.explored[p.Namespace+"/"+name] = p
	}
	d.report.Pods = append(d.report.Pods, p)
	d.owner(ctx, p)
	d.identify(ctx, p)
	d.history(ctx, p)
	d.examine(ctx, p, depth)
	return p.key()
}

// group makes one entry of the Pods that one owner runs and that are held by the same container in the same way.
func group(stuck []*Pod) []*Pod {
	first := map[string]*Pod{}
	var groups []*Pod
	for _, p := range stuck {
		owner := controller(p.pod)
		if owner == nil {
			groups = append(groups, p)
			continue
		}
		key := fmt.Sprintf("%s %s %s %s %s", owner.UID, owner.Name, p.State, p.Container, p.Reason)
		if f := first[key]; f != nil {
			f.Also = append(f.Also, p.Name)
			continue
		}
		first[key] = p
		groups = append(groups, p)
	}
	return groups
}

// order puts the Pods that no other one waits for first: below them stands what they wait for.
func (d *doctor) order() {
	awaited := map[string]bool{}
	for _, p := range d.report.Pods {
		for _, f := range p.Findings {
			for _, name := range f.Pods {
				awaited[name] = awaited[name] || name != p.key()
			}
		}
	}
	rank := func(p *Pod) int {
		switch {
		case p.AskedFor && !awaited[p.key()]:
			return 0
		case p.AskedFor:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(d.report.Pods, func(a, b *Pod) int { return rank(a) - rank(b) })
}

// add appends a finding, once.
func (p *Pod) add(f Finding) {
	f.About, f.Text = failure.Printable(f.About), failure.Printable(f.Text)
	same := func(g Finding) bool { return g.About == f.About && g.Text == f.Text }
	if !slices.ContainsFunc(p.Findings, same) {
		p.Findings = append(p.Findings, f)
	}
}

// explainRequest returns the error of a request without which nothing can be said.
func explainRequest(err error, verb, what, namespace string) error {
	in := " in all namespaces"
	flag := "-A"
	if namespace != "" {
		in, flag = " in "+namespace, "-n "+namespace
	}
	failed := fmt.Errorf("%s %s%s: %s", verb, what, in, reason(err))
	switch {
	case apierrors.IsForbidden(err):
		hint := fmt.Sprintf("kubectl auth can-i %s %s %s shows whether you may; ask for the ClusterRole view", verb, what, flag)
		if namespace == "" {
			hint = "with -n NAMESPACE it reads one namespace; " + hint
		}
		return failure.WithHint(failed, hint)
	case apierrors.IsUnauthorized(err):
		return failure.WithHint(failed, "log in again, as for kubectl: the credentials in the kubeconfig are missing or have expired")
	case errors.Is(err, context.Canceled):
		return err
	}
	return failure.WithHint(failed, "kubectl get --raw /readyz, with the same --kubeconfig and --context, shows whether the API server can be reached")
}
