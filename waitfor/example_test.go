package waitfor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"initbox/waitfor"
)

// A wait for a server and a file, which are both there.
func ExampleAll() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status": "UP"}`)
	}))
	defer server.Close()
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}

	o := waitfor.Options{AttemptTimeout: 10 * time.Second}
	var checks []waitfor.Check
	for _, text := range []string{server.URL + "/#json=.status==UP", "file://" + filepath.ToSlash(self)} {
		check, err := waitfor.Parse(text, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		checks = append(checks, check)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(waitfor.All(ctx, o, checks...))
	// Output: <nil>
}

// A check is shown without credentials, and an error does not quote the target.
func ExampleParse() {
	check, err := waitfor.Parse("jdbc:postgresql://mydb/app?user=app&password=hunter2", waitfor.Options{})
	fmt.Println(check, err)
	_, err = waitfor.Parse("postgre://app:hunter2@mydb/app", waitfor.Options{})
	fmt.Println(err)
	// Output:
	// postgresql://mydb/app?… <nil>
	// no such kind of target: postgre://; did you mean postgres://?
}
