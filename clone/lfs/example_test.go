package lfs_test

import (
	"fmt"

	"initbox/clone/lfs"
)

func ExampleParse() {
	p, ok := lfs.Parse([]byte(`version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
`))
	fmt.Println(p.OID[:8], p.Size, ok)
	_, ok = lfs.Parse([]byte("any other file\n"))
	fmt.Println(ok)
	// Output:
	// 4d7a2146 12345 true
	// false
}
