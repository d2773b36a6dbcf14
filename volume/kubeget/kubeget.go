// Package kubeget writes what the Kubernetes API knows to files: keys of Secrets and ConfigMaps, fields, whole objects.
package kubeget
