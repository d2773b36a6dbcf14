package archive

import (
	"context"
	"io"
)

const (
	chunkSize = 256 << 10
	chunks    = 4
)

// ahead calls use with the content of r, which it reads in another goroutine, a few chunks ahead. Then it reads r to
// its end, unless there was an error, and waits for the goroutine.
func ahead(ctx context.Context, r io.Reader, use func(io.Reader) error) error {
	a := &aheadReader{full: make(chan chunk, chunks), free: make(chan []byte, chunks), stop: make(chan struct{})}
	for range chunks {
		a.free <- make([]byte, chunkSize)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
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

// chunk is a part of the content, with the error that follows it.
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

// fill reads r until it ends, or its reader stops.
func (a *aheadReader) fill(ctx context.Context, r io.Reader) {
	for err := error(nil); err == nil; {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.stop:
			return
		}
		n := 0
		for n < len(buf) && err == nil {
			more := 0
			more, err = r.Read(buf[n:])
			n += more
		}
		if err != nil && err != io.EOF {
			err = formatError{err}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		a.full <- chunk{buf, buf[:n], err} // there is room for all
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
