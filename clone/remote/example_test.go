package remote_test

import (
	"context"
	"fmt"
	"os"

	"initbox/clone/remote"
)

func ExampleParseURL() {
	u, err := remote.ParseURL("git@git.example.com:team/app.git", os.Getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(u.Scheme, u.User, u.Address(), u.Path)

	submodule, err := u.Resolve("../lib.git")
	fmt.Println(submodule, err)
	// Output:
	// ssh git git.example.com:22 team/app.git
	// git@git.example.com:team/lib.git <nil>
}

func ExampleOpen() {
	u, err := remote.ParseURL("/nonexistent/repo.git", os.Getenv)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = remote.Open(context.Background(), u, remote.Options{})
	fmt.Println(err)
	// Output: no such repository: there is nothing at that path
}
