package publish

import (
	"os"
	"testing"
)

// BenchmarkSeal reads the tree in $INITBOX_BENCH_TREE.
func BenchmarkSeal(b *testing.B) {
	dir, err := os.Open(os.Getenv("INITBOX_BENCH_TREE"))
	if err != nil {
		b.Skip("no $INITBOX_BENCH_TREE")
	}
	defer dir.Close()
	for b.Loop() {
		w, err := sealOf(dir, whole, func(string) bool { return false })
		if err != nil || w.sum.Files == 0 {
			b.Fatal(w.sum, err)
		}
		b.ReportMetric(float64(w.sum.Files), "files")
	}
}
