package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"initbox/clone"
	"initbox/internal/atomicfile"
)

// minWatch is as often as a server has to be asked for something new.
const minWatch = duration(100 * time.Millisecond)

// stay clones, and again whenever there is something new, until a signal comes.
// The deadline is that of the first clone; what fails later is tried again.
func (g *gitFlags) stay(first context.Context, e *env, o clone.Options, after aftermath) error {
	probe, err := openProbe(g.startupProbe)
	if err != nil {
		return err
	}
	defer probe.close()
	ctx, cancel := context.WithCancelCause(e.untilStopped)
	defer cancel(nil)
	lift := context.AfterFunc(first, func() { cancel(context.Cause(first)) })
	defer lift()
	var (
		there   bool
		useless error // to stay: nobody would know that it is there
	)
	err = clone.Watch(ctx, o, g.watch.Duration(), func(ctx context.Context, r clone.Result) error {
		err := after.write(e, r)
		if err == nil && !there {
			err = probe.ready()
		}
		if err != nil && !there {
			useless = err
			cancel(err)
		}
		if err != nil {
			return err
		}
		there = true
		lift()
		if after.webhook == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, after.webhook.timeout) // the next change must not wait for who listens to this one
		defer cancel()
		return after.webhook.tell(ctx, e, r.SHA)
	})
	switch {
	case useless != nil:
		return useless
	case there && e.untilStopped.Err() != nil:
		return nil
	}
	return err
}

// errorFile is git-sync's --error-file: why the last run failed.
type errorFile string

// report writes err into the file, or removes that if there is none, and returns
// err, or why the file cannot be written.
func (f errorFile) report(err error) error {
	if f == "" || errors.As(err, new(usageError)) {
		return err
	}
	if err == nil {
		if err := os.Remove(string(f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	text, _ := json.Marshal(map[string]string{"Msg": "git-clone failed", "Err": printable(err.Error())})
	return errors.Join(err, atomicfile.Write(string(f), append(text, '\n'), 0o644))
}
