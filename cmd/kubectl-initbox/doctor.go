package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/labels"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs of clusters with logins of their own
	"k8s.io/client-go/tools/clientcmd"

	"initbox/cmd/kubectl-initbox/doctor"
	"initbox/internal/failure"
	"initbox/internal/suggest"
)

func (s *streams) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "explain why Pods are stuck",
		ArgsUsage: "[POD|KIND/NAME…]",
		Description: "For each Pod that is not ready: the container that holds it up, and since when; how it ended and what it wrote;\n" +
			"what it waits for, what is wrong there, and the Pods behind that; what to change. It only reads.\n" +
			"Without arguments, all Pods of the namespace are examined.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "`NAMESPACE` of the Pods (default: that of the context)"},
			&cli.BoolFlag{Name: "all-namespaces", Aliases: []string{"A"}, Usage: "the Pods of all namespaces"},
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "`LABELS` of the Pods, such as app=web"},
			outputFlag("text for people, or json", "text", "json"),
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "keep running until all Pods run, and print what changes"},
			&cli.StringFlag{Name: "kubeconfig", Usage: "`FILE` with the address of the cluster and your credentials (default: as for kubectl)"},
			&cli.StringFlag{Name: "context", Usage: "`NAME` of a context in the kubeconfig"},
		},
		Action: s.diagnose,
	}
}

func (s *streams) diagnose(c *cli.Context) error {
	selector, err := labels.Parse(c.String("selector"))
	switch {
	case err != nil:
		return failure.WithHint(usagef("--selector: %w", err), "as for kubectl: app=web, 'tier in (db, cache)', '!canary'")
	case c.Bool("all-namespaces") && c.NArg() > 0:
		return usagef("--all-namespaces: names are those of one namespace: give it with --namespace")
	case c.Bool("all-namespaces") && c.IsSet("namespace"):
		return usagef("--all-namespaces and --namespace: give one of them")
	}
	client, namespace, err := connect(c)
	if err != nil {
		return err
	}
	if c.Bool("all-namespaces") {
		namespace = ""
	}
	o := doctor.Options{Namespace: namespace, Names: c.Args().Slice(), Selector: selector}
	var earlier *doctor.Report
	write := func(r *doctor.Report) error {
		defer func() { earlier = r }()
		var changes bytes.Buffer
		if err := r.WriteChanges(&changes, earlier); err != nil || changes.Len() == 0 {
			return err
		}
		if c.String("output") == "json" {
			return r.WriteJSON(s.stdout)
		}
		_, err := changes.WriteTo(s.stdout)
		return err
	}
	if c.Bool("watch") {
		return doctor.Watch(c.Context, client, o, write)
	}
	report, err := doctor.Diagnose(c.Context, client, o)
	if err != nil {
		return err
	}
	if err := write(report); err != nil {
		return err
	}
	if report.Found() {
		return errFound
	}
	return nil
}

// connect returns a client for the cluster that kubectl would use with the same flags, and the namespace.
func connect(c *cli.Context) (*doctor.Client, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.String("kubeconfig")
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.String("context")}
	overrides.Context.Namespace = c.String("namespace")
	kubeconfig := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	hint := "kubectl config get-contexts lists the contexts; --kubeconfig and $KUBECONFIG name the file"
	if raw, err := kubeconfig.RawConfig(); err == nil && overrides.CurrentContext != "" && raw.Contexts[overrides.CurrentContext] == nil {
		names := slices.Sorted(maps.Keys(raw.Contexts))
		return nil, "", failure.WithHint(fmt.Errorf("--context: no context %s in the kubeconfig", failure.Printable(overrides.CurrentContext)),
			suggest.Question(overrides.CurrentContext, names, "")+"kubectl config get-contexts lists the contexts")
	}
	namespace, _, err := kubeconfig.Namespace()
	if err != nil {
		return nil, "", failure.WithHint(fmt.Errorf("read the kubeconfig: %w", err), hint)
	}
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return nil, "", failure.WithHint(fmt.Errorf("read the kubeconfig: %w", err), hint)
	}
	client, err := doctor.NewClient(config)
	return client, namespace, err
}
