package failure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/poll"
)

func TestFields(t *testing.T) {
	refused := fmt.Errorf("connect: %w", syscall.ECONNREFUSED)
	ended := &poll.Error{Attempts: 3, Waited: 1500 * time.Millisecond, Cause: context.DeadlineExceeded, Last: refused}
	for want, attr := range map[string]slog.Attr{
		`target=a class=refused seconds=0.002`: Fields("a", 2*time.Millisecond, refused),
		`class=refused`:                        Fields("", 0, refused),
		`target=a`:                             Fields("a", 0, errors.New("of a kind that is not known")),
		``:                                     Fields("", 0, nil),
		// The last attempt says more than the deadline.
		`class=refused seconds=1.5 attempt=3`:                       Fields("", 0, fmt.Errorf("download: %w", ended)),
		`target=b class="no such repository" seconds=1.5 attempt=3`: Fields("", 0, WithHint(About("b", New(NoRepository, "not found"), ended), "x")),
		`target=b class=missing seconds=2`:                          Fields("", 0, &poll.Error{Waited: 2 * time.Second, Cause: context.Canceled, Last: About("b", New(Missing, "not found"), refused)}),
		`target=a class=missing`:                                    Fields("a", 0, About("b", New(Missing, "not found"), refused)),
		`hint="apply it" role="kind: Role"`:                         Advised(Advice(fmt.Errorf("x: %w", &Failure{Hint: "apply it\nkind: Role", Role: "kind: Role"}))),
		`hint="look there"`:                                         Advised(Advice(WithHint(refused, "look there"))),
	} {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("", attr)
		_, got, _ := strings.Cut(strings.TrimSpace(b.String()), `msg=""`)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestClassesDocumented requires that the page on the log has every class.
func TestClassesDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/common.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("failure.go")
	if err != nil {
		t.Fatal(err)
	}
	classes := regexp.MustCompile(`\sClass = "(.*)"`).FindAllStringSubmatch(string(source), -1)
	if len(classes) < 16 {
		t.Fatalf("only %d classes in failure.go", len(classes))
	}
	for _, c := range classes {
		if !strings.Contains(string(page), "`"+c[1]+"`") {
			t.Errorf("docs/common.md does not have the class %s", c[1])
		}
	}
}
