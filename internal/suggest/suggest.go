// Package suggest finds the known name that a misspelt one stands for, for messages such as
// "unknown flag --timeuot, did you mean --timeout?".
package suggest

import "strings"

// Closest returns the one of the known names that name probably stands for, or "". They
// differ in at most two characters, and fewer than half, or one begins with the other.
func Closest(name string, known []string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	best, least := "", 3
	for _, k := range known {
		if len(name) > 2*len(k) {
			continue
		}
		n := slips(name, k)
		if len(name) >= 3 && len(k) >= 3 && (strings.HasPrefix(k, name) || strings.HasPrefix(name, k)) {
			n = min(n, 1)
		}
		if n < least && 2*n < len(name) {
			best, least = k, n
		}
	}
	return best
}

// Question returns "did you mean NAME? " with the closest of the known names, which prefix precedes, or "".
func Question(name string, known []string, prefix string) string {
	if meant := Closest(name, known); meant != "" {
		return "did you mean " + prefix + meant + "? "
	}
	return ""
}

// slips counts the characters to leave out, to add, to replace or to swap with
// the next to turn a into b (the optimal string alignment distance).
func slips(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
