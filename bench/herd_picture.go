package main

import (
	"fmt"
	"slices"
	"strings"
)

// The picture's measures, in its own units.
const (
	pictureWidth = 760
	panelHeight  = 150
	panelLeft    = 56
	panelWidth   = pictureWidth - panelLeft - 16
	panelTop     = 34 // for the title above each panel
	panelStep    = panelTop + panelHeight + 8
	axisHeight   = 44
)

// herdPicture draws what each server saw, one above the other and to the same
// scale. Its colours can be read on a light ground and on a dark one.
func herdPicture(mine, theirs tally) string {
	seconds := (max(len(mine.each), len(theirs.each), int(theirs.took.Seconds())) + 9) / 10 * 10
	top := (max(slices.Max(mine.each), slices.Max(theirs.each)) + 49) / 50 * 50
	var s strings.Builder
	height := 2*panelStep + axisHeight
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" font-family="sans-serif" font-size="13">
<title>Requests per second that a server gets from %d clients that start together</title>
<style>text{fill:#7a7f87}.grid{stroke:#7a7f87;stroke-opacity:.3}.capacity{stroke:#d0453c;stroke-dasharray:5 4}.mine{fill:#3a86c8}.theirs{fill:#d98a1f}</style>
`, pictureWidth, height, mine.size)
	panel(&s, 0, "mine", "initbox register: "+story(mine), mine, seconds, top)
	panel(&s, panelStep, "theirs", "curl --retry 10: "+story(theirs), theirs, seconds, top)
	for x := 0; x <= seconds; x += 10 {
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", across(x, seconds), 2*panelStep+12, x)
	}
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="middle">seconds since the start of all</text>`+"\n", panelLeft+panelWidth/2, 2*panelStep+32)
	fmt.Fprintf(&s, `<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">requests per second</text>`+"\n</svg>\n", panelStep)
	return s.String()
}

func story(t tally) string {
	if !t.all() {
		return fmt.Sprintf("%d of %d registered in %.0f s", t.registered, t.size, t.took.Seconds())
	}
	return fmt.Sprintf("all %d registered in %.0f s", t.size, t.last.Seconds())
}

func across(second, seconds int) float64 {
	return panelLeft + panelWidth*float64(second)/float64(seconds)
}

// panel draws one server's requests as a bar for each second.
func panel(s *strings.Builder, y int, class, title string, t tally, seconds, top int) {
	bottom := y + panelTop + panelHeight
	up := func(n int) float64 { return float64(bottom) - panelHeight*float64(n)/float64(top) }
	fmt.Fprintf(s, `<text x="%d" y="%d">%s</text>`+"\n", panelLeft, y+20, title)
	for n := 0; n <= top; n += 100 {
		fmt.Fprintf(s, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n", panelLeft, up(n), panelWidth, panelLeft-6, up(n)+4, n)
	}
	var bars strings.Builder
	width := across(1, seconds) - across(0, seconds)
	for second, n := range t.each {
		if n > 0 {
			fmt.Fprintf(&bars, "M%.1f %dV%.1fh%.1fV%[2]d", across(second, seconds), bottom, up(n), width*0.8)
		}
	}
	fmt.Fprintf(s, `<path class="%s" d="%s"/>`+"\n", class, bars.String())
	fmt.Fprintf(s, `<path class="capacity" d="M%d %.1fh%d"/>`+"\n", panelLeft, up(t.capacity), panelWidth)
	fmt.Fprintf(s, `<text x="%d" y="%d" text-anchor="end">the line: %d a second, which it can answer</text>`+"\n", panelLeft+panelWidth, y+20, t.capacity)
}
