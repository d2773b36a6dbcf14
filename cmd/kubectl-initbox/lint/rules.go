package lint

// Rule is a rule, with its section in docs/lint.md, whose anchor is the ID.
type Rule struct {
	ID       string
	Severity Severity
	Finds    string // what it finds, for the table in docs/lint.md
	check    func(*pod, report)
}

// Rules returns all rules, in the order of the documentation.
func Rules() []*Rule { return append(rules[:len(rules):len(rules)], &silenceRule) }

var rules = []*Rule{
	// The program and its command line.
	{"no-shell", Error, "a shell in the image of initbox, which has none", every(noShell)},
	{"no-such-program", Error, "a program, or a link to initbox, that the image does not have", every(noSuchProgram)},
	{"one-string", Error, "a command line in one string, or a string where a list is needed", noList},
	{"unknown-subcommand", Error, "a subcommand that initbox does not have", every(wrongLine("unknown-subcommand"))},
	{"unknown-flag", Error, "a flag that the subcommand does not have", every(wrongLine("unknown-flag"))},
	{"unset-variable", Error, "`$(NAME)` or `${env:NAME}` without such a variable", every(wrongLine("unset-variable"))},
	{"pod-field", Error, "no variable with the Pod's IP, or another field, where it is needed", every(wrongLine("pod-field"))},
	{"command-line", Error, "arguments and values of flags that initbox refuses", every(wrongLine("command-line"))},
	{"unreplaced", Warning, "`$(NAME)` that Kubernetes leaves as it is, where initbox takes any text", every(unreplaced)},
	{"secret-in-args", Warning, "the value of a Secret in a command line, by `$(NAME)`", every(secretInArgs)},
	{"ordinal", Error, "`--ordinal-step` in a Pod whose name has no ordinal", mains(ordinal)},
	{"image-tag", Warning, "an image of initbox without a tag, or with `latest`", imageTag},
	// The life of the container.
	{"sidecar", Error, "`--hold` or `--watch` in an init container without `restartPolicy: Always`", mains(sidecar)},
	{"sidecar-ends", Warning, "`restartPolicy: Always` for a step that ends", mains(sidecarEnds)},
	{"startup-probe", Error, "a startup probe that never succeeds: another port, or none", mains(startupProbe)},
	{"no-startup-probe", Warning, "a sidecar without a startup probe, for which nothing waits", mains(noStartupProbe)},
	{"signal", Error, "`--signal` in a Pod whose containers do not share a process namespace", mains(signal)},
	{"probe-timeout", Warning, "a probe whose `timeoutSeconds` ends it before its `--timeout`", every(probeTimeout)},
	{"grace-period", Warning, "a preStop hook that may take longer than `terminationGracePeriodSeconds`", every(gracePeriod)},
	{"progress-deadline", Warning, "a wait that outlasts the `progressDeadlineSeconds` of its Deployment", mains(progressDeadline)},
	{"merge-waits", Warning, "two waits, one after the other, that could be one", mergeWaits},
	{"memory-limit", Warning, "a memory limit below what a subcommand needs", mains(memoryLimit)},
	{"job-revision", Warning, "a wait for a Job with the revision of the release in its name", every(jobRevision)},
	// Volumes.
	{"no-volume", Error, "a destination that lies in no volume", mains(noVolume)},
	{"read-only-volume", Error, "a destination in a volume that cannot be written to", mains(readOnlyVolume)},
	{"unread-volume", Warning, "a destination in an emptyDir that no other container mounts", mains(unreadVolume)},
	{"other-volume", Warning, "a destination where the application has another volume, read-only", mains(otherVolume)},
	{"mount-over-program", Error, "a volume that hides the program", mains(mountOverProgram)},
	{"state-volume", Error, "a `--state` that the hook which deregisters does not see, or in no volume", stateVolume},
	{"root-prepare", Warning, "`prepare` as root where `fsGroup` does the same", mains(rootPrepare)},
	// The API server.
	{"service-account-token", Error, "`k8s:` targets without the token of the service account", every(serviceAccountToken)},
	{"rbac", Error, "`k8s:` targets that no Role in the input allows", every(rbac)},
}
