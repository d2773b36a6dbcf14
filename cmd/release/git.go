package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// commit is the commit that is released.
type commit struct {
	id   string
	time time.Time // of the commit, which is that of all files
}

// head returns the commit that is checked out.
func head(root string) (commit, error) {
	out, err := git(root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return commit{}, err
	}
	id, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return commit{id, time.Unix(unix, 0).UTC()}, err
}

// isClean refuses files that differ from the commit, and those that git neither has nor ignores. It lists at most ten.
func isClean(root, version string) error {
	out, err := git(root, "status", "--porcelain")
	if err != nil || out == "" {
		return err
	}
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) > 10 {
		lines = append(lines[:10], fmt.Sprintf("… and %d more", len(lines)-10))
	}
	return fmt.Errorf("release %s: the working tree is not clean, so the commit does not say what was released:\n%s\n"+
		"hint: commit these files, or git stash --include-untracked", version, strings.Join(lines, "\n"))
}

// isTagged refuses a tag that points to another commit. A missing tag is fine: the files can be made before the tag.
func (c commit) isTagged(root, tag string) error {
	out, err := git(root, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+tag)
	if err != nil || out == "" || strings.Contains(out, c.id) {
		return err
	}
	return fmt.Errorf("release %s: the tag is another commit than %s, which is checked out\nhint: git checkout %s", tag, c.id, tag)
}

// tracked lists the files of the commit below a directory, relative to it.
func tracked(dir string) ([]string, error) {
	out, err := git(dir, "ls-files", "-z", "--", ".")
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), err
}

// git runs git, and returns what it prints. A checkout may belong to another user than the one who builds, as in a
// container.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", dir}, args...)...)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(messages.String()))
	}
	return string(out), nil
}
