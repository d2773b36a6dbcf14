package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"initbox/test/servers"
)

func TestDemo(t *testing.T) {
	servers.Slow(t)
	binary, err := servers.Initbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-initbox", binary, "-pace", "50ms"}, &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s%s", status, &stdout, &stderr)
	}
	// These lines must appear in this order, with any others between them.
	rest := stdout.String()
	for _, want := range []string{
		`kubectl +\| .* Init:0/2 `,
		`init-myservice \| \$ initbox wait-for-dns myservice\n`,
		`init-myservice \| .*myservice.*no such name`,
		`cluster +\| service myservice created`,
		`init-myservice \| exit status 0`,
		`kubectl +\| .* Init:1/2 `,
		`init-mydb +\| \$ initbox wait-for-service http://mydb:\d+/healthz tcp://mydb:\d+\n`,
		`init-mydb +\| .*no such name`,
		`cluster +\| service mydb created`,
		`init-mydb +\| .*refused`,
		`cluster +\| mydb listens`,
		`init-mydb +\| .*503`,
		`cluster +\| mydb has recovered`,
		`init-mydb +\| exit status 0`,
		`kubectl +\| .* PodInitializing `,
		`kubectl +\| .* 1/1 +Running `,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q, or too early, in\n%s", want, &stdout)
		}
		rest = rest[at[1]:]
	}
}

// An init container that fails stops the Pod, and reports the reason.
func TestInitError(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "initbox")
	script := "#!/bin/sh\nwhile [ \"$1\" != --termination-log ]; do shift; done\necho no luck today | tee \"$2\"\nexit 1\n"
	servers.WriteProgram(t, binary, []byte(script))
	var stdout, stderr bytes.Buffer
	// The cluster stops early: all its events would take hours.
	if status := run([]string{"-initbox", binary, "-pace", "1h"}, &stdout, &stderr); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	for _, want := range []string{"init-myservice | no luck today\n", " Init:Error "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in the transcript:\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "init-mydb |") {
		t.Errorf("the second init container ran after the first had failed:\n%s", &stdout)
	}
	if want := "demo: init-myservice: exit status 1: no luck today\n"; stderr.String() != want {
		t.Errorf("stderr is %q, want %q", &stderr, want)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-nope"}, {"surplus"}} {
		var stdout, stderr bytes.Buffer
		if status := run(args, &stdout, &stderr); status != 2 || stdout.Len() > 0 {
			t.Errorf("%q: exit status %d, stdout %q; want 2 and nothing", args, status, &stdout)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-initbox", filepath.Join(t.TempDir(), "absent")}, &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), "no such file") {
		t.Errorf("with no binary: exit status %d, %q; want 1 and that there is no such file", status, &stderr)
	}
}
