package archive

import (
	"context"
	"io"
)

const (
	chunkSize = 256 << 10
	chunks    = 4
)

// ahead calls use with the content of r, which it reads in another goroutine, a few chunks ahead. It returns when both
// have ended.
func ahead(ctx context.Context, r io.Reader, use func(io.Reader) error) error {
	a := &aheadReader{full: make(chan chunk, chunks), free: make(chan []byte, chunks), stop: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(a.full)
		a.fill(ctx, r)
	}()
	err := use(a)
	if err == nil {
		_, err = io.Copy(io.Discard, a)
	}
	close(a.stop)
	<-ended
	return err
}

// chunk is a part of the content, or the error after it.
type chunk struct {
	buf, data []byte
	err       error
}

type aheadReader struct {
	full chan chunk
	free chan []byte
	stop chan struct{}
	now  chunk
}

// fill reads r until it ends or its reader stops.
func (a *aheadReader) fill(ctx context.Context, r io.Reader) {
	for made := 0; ; {
		var buf []byte
		if made < chunks {
			select {
			case buf = <-a.free:
			default:
				buf = make([]byte, chunkSize)
				made++
			}
		} else {
			select {
			case buf = <-a.free:
			case <-a.stop:
				return
			}
		}
		n, err := 0, error(nil)
		for n < len(buf) && err == nil {
			var more int
			if more, err = r.Read(buf[n:]); more == 0 && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			n += more
		}
		if err != nil && err != io.EOF {
			err = formatError{err}
		}
		select {
		case a.full <- chunk{buf, buf[:n], err}:
		case <-a.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

func (a *aheadReader) Read(p []byte) (int, error) {
	for len(a.now.data) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.buf != nil {
			a.free <- a.now.buf
		}
		a.now = <-a.full
	}
	n := copy(p, a.now.data)
	a.now.data = a.now.data[n:]
	return n, nil
}
