package attributes_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/attributes"
)

func Example() {
	set, err := attributes.Load([]string{".gitattributes"}, func(string) ([]byte, error) {
		return []byte("*.bat text eol=crlf\n"), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := set.For("tools/run.bat")
	blob := []byte("echo hello\n")
	converted, warning, err := attributes.Convert(bytes.NewReader(blob), a, plumbing.ComputeHash(plumbing.BlobObject, blob))
	if err != nil {
		fmt.Println(err)
		return
	}
	content, err := io.ReadAll(converted)
	fmt.Printf("%t %q %q %v\n", a.Converts(), content, warning, err)
	// Output: true "echo hello\r\n" "" <nil>
}
