package lint

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
)

// hook is a command that the kubelet runs in a container.
type hook struct {
	name     string
	path     []string // in the container
	command  []string
	seconds  int32 // timeoutSeconds of a probe; 0 for others
	expanded bool  // the kubelet replaces $(NAME) in it
}

// hooks returns the probes and hooks of a container that run a command. The kubelet replaces variables in the commands
// of probes (pkg/kubelet/prober/prober.go) and not in those of hooks (pkg/kubelet/lifecycle/handlers.go).
func hooks(c *manifest.Container) (all []hook) {
	for name, probe := range map[string]*corev1.Probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
		if probe != nil && probe.Exec != nil {
			all = append(all, hook{name, []string{name, "exec", "command"}, probe.Exec.Command, max(probe.TimeoutSeconds, 1), true})
		}
	}
	if c.Lifecycle != nil {
		for name, h := range map[string]*corev1.LifecycleHandler{"postStart": c.Lifecycle.PostStart, "preStop": c.Lifecycle.PreStop} {
			if h != nil && h.Exec != nil {
				all = append(all, hook{name: name, path: []string{"lifecycle", name, "exec", "command"}, command: h.Exec.Command})
			}
		}
	}
	return all
}

// isProgram returns whether a word runs the program: by its own name, or that of a link to it.
func isProgram(word string) bool {
	base := path.Base(word)
	return base == "initbox" || command.IsSubcommand(base) && (base != word || base != "sleep" && base != "install")
}

// mount returns the innermost volumeMount of the container above a path, and the volume of the Pod that is mounted
// there. Both are nil if the path lies in the image; only the volume is nil if the Pod does not declare it.
func (c *container) mount(name string) (*corev1.VolumeMount, *corev1.Volume) {
	var found *corev1.VolumeMount
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		if within(name, m.MountPath) && (found == nil || len(path.Clean(m.MountPath)) >= len(path.Clean(found.MountPath))) {
			found = m
		}
	}
	if found == nil {
		return nil, nil
	}
	i := slices.IndexFunc(c.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == found.Name })
	if i < 0 {
		return found, nil // of a StatefulSet's volumeClaimTemplates
	}
	return found, &c.pod.Spec.Volumes[i]
}

// mounts returns whether the container mounts a volume.
func (c *container) mounts(volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
}

// mountsBelow returns whether something is mounted below a path.
func (c *container) mountsBelow(name string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return within(m.MountPath, name) })
}

// within returns whether a path is dir, or below it.
func within(name, dir string) bool {
	name, dir = path.Clean(name), path.Clean(dir)
	return name == dir || dir == "/" || len(name) > len(dir) && name[:len(dir)] == dir && name[len(dir)] == '/'
}

// readOnly returns whether a volume, as it is mounted, cannot be written to.
func readOnly(m *corev1.VolumeMount, v *corev1.Volume) bool {
	return m.ReadOnly || v != nil && (v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.Image != nil)
}
