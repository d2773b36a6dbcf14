package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMostInASecond(t *testing.T) {
	ms := func(times ...int) (d []time.Duration) {
		for _, t := range times {
			d = append(d, time.Duration(t)*time.Millisecond)
		}
		return d
	}
	for _, tt := range []struct {
		times []time.Duration
		want  int
	}{
		{nil, 0},
		{ms(0, 1, 2, 999), 0}, // the first second does not count
		{ms(0, 999, 1000, 1999), 2},
		{ms(1500, 2499, 2500, 1501), 3}, // whatever the order, and across full seconds
		{ms(1000, 2000, 3000), 1},
	} {
		if got := mostInASecond(tt.times); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.times, got, tt.want)
		}
	}
}

// TestGate pins that no client is answered before all have asked, and that the others get 503.
func TestGate(t *testing.T) {
	const size, capacity = 20, 3
	b := &bench{} // on any port
	g, err := b.crowded(herdHost+5, size, capacity)
	if err != nil {
		t.Fatal(err)
	}
	defer g.listener.Close()
	var clients sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for n := range size {
		clients.Go(func() {
			resp, err := http.PostForm(g.url(), url.Values{"instance": {strconv.Itoa(n)}})
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			answers[resp.StatusCode]++
		})
	}
	clients.Wait()
	tally := g.tally()
	if answers[200] < capacity || answers[200]+answers[503] != size || tally.registered != answers[200] || tally.requests != size || tally.all() {
		t.Errorf("answers %v, tally %+v", answers, tally)
	}
}

// TestHerdPicture pins that the picture is one, and small.
func TestHerdPicture(t *testing.T) {
	each := make([]int, 100)
	for i := range each {
		each[i] = 1000 / (i + 1)
	}
	mine := tally{size: 300, capacity: 12, registered: 300, last: 35 * time.Second, each: each[:36]}
	theirs := tally{size: 300, capacity: 12, registered: 84, took: 100 * time.Second, each: each}
	svg := herdPicture(mine, theirs)
	if len(svg) > 20_000 {
		t.Errorf("%d bytes", len(svg))
	}
	for _, want := range []string{"all 300 registered in 35 s", "84 of 300 registered in 100 s"} {
		if !strings.Contains(svg, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
