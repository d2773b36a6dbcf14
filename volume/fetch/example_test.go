package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"initbox/volume/fetch"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") }))
	defer server.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	src, err := fetch.Parse(server.URL+"/greeting.txt#sha256=5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", nil, os.Getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	dst := filepath.Join(dir, "greeting.txt")
	if err := fetch.Run(context.Background(), fetch.Options{Sources: []*fetch.Source{src}, Dst: dst}); err != nil {
		fmt.Println(err)
		return
	}
	content, err := os.ReadFile(dst)
	fmt.Print(string(content), err)
	// Output:
	// hello
	// <nil>
}
