// Package lint finds mistakes in the init containers of manifests, without a cluster.
package lint
