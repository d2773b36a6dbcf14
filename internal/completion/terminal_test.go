package completion

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// Keys of the shells in a terminal, which the terminal itself gives no meaning.
const (
	insertAll = "\x1ba" // inserts everything that is offered
	printLine = "\x1bo" // prints the line to file descriptor 3, and empties it
)

// shellIn starts an interactive shell in a terminal of its own, and returns a function that completes a line.
func shellIn(t *testing.T, cmd *exec.Cmd) (complete func(line string) []string) {
	t.Helper()
	master, terminal := openTerminal(t)
	lines, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = terminal, terminal, terminal, []*os.File{out}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "TERM=xterm", "HISTFILE=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	out.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		master.Close()
		lines.Close()
	})
	screen := &strings.Builder{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		bufio.NewReader(master).WriteTo(screen)
	}()
	reader := bufio.NewReader(lines)
	return func(line string) []string {
		fmt.Fprint(master, line+insertAll+printLine)
		result, err := reader.ReadString('\n')
		if err != nil {
			<-read
			t.Fatalf("%s ended: %v\n%s", cmd.Path, err, screen)
		}
		before := line[:strings.LastIndexByte(line, ' ')+1]
		if result = strings.TrimSuffix(result, "\n"); result == line {
			return nil
		}
		words := regexp.MustCompile(`(\\.|[^\\ ])+`)
		return words.FindAllString(strings.TrimPrefix(result, before), -1)
	}
}

// openTerminal returns both ends of a new pseudo terminal.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals: ", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, terminal
}

// shellFile writes a shell's file of settings.
func shellFile(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBash(t *testing.T) {
	servers.Need(t, "bash")
	p, dir := small(t)
	rc := shellFile(t, "bashrc", fmt.Sprintf(`
source %q; cd %q; PS1='$ '
print_line() { printf '%%s\n' "$READLINE_LINE" >&3; READLINE_LINE=; }
bind '"\ea": insert-completions'
bind -x '"\eo": print_line'
`, script(t, p, Bash), dir))
	testTyped(t, dir, shellIn(t, exec.Command("bash", "--noprofile", "--rcfile", rc, "-i")))
}

// In zsh, the file lies in a directory of $fpath, where compinit finds it.
func TestZsh(t *testing.T) {
	servers.Need(t, "zsh")
	p, dir := small(t)
	rc := shellFile(t, ".zshrc", fmt.Sprintf(`
fpath=(%q $fpath); cd %q; PS1='$ '
autoload -Uz compinit; compinit -u -D
print_line() { print -r -u 3 -- "$BUFFER"; BUFFER= }
zle -N print_line
zle -C insert_all complete-word _generic
zstyle ':completion:insert_all::::' completer _all_matches _complete
zstyle ':completion:insert_all:*' insert yes
bindkey '\ea' insert_all
bindkey '\eo' print_line
`, filepath.Dir(script(t, p, Zsh)), dir))
	cmd := exec.Command("zsh", "-d", "-i")
	os.Setenv("ZDOTDIR", filepath.Dir(rc))
	defer os.Unsetenv("ZDOTDIR")
	testTyped(t, dir, shellIn(t, cmd))
}
