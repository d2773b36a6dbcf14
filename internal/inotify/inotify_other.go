//go:build !linux

package inotify

import "context"

// Watch returns nil: there is no inotify here. The plugin for macOS links this package, and waits for nothing.
func Watch(context.Context, ...string) <-chan struct{} { return nil }

// WatchFile returns nil, as [Watch] does.
func WatchFile(context.Context, string) <-chan struct{} { return nil }
