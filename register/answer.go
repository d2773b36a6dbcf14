package register

import (
	"fmt"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/register/exchange"
)

func (r *Registration) wantsAnswer() bool { return r.o.Output != "" || r.o.Extract != "" }

// extract takes from the answer what the options ask for.
func (r *Registration) extract(a *httpclient.Answer) ([]byte, error) {
	value, err := exchange.Take(a, r.o.Extract)
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("%s: %s is registered, but the answer %w", r.place(), r.entry.shown(), err), "look at the whole answer: --output FILE without --extract")
	}
	return value, nil
}

// output returns the file for the answer.
func (r *Registration) output() exchange.Output {
	return exchange.Output{Name: r.o.Output, Writer: atomicfile.Writer{Follow: r.o.Follow}, Mode: 0o600}
}
