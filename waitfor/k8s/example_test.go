package k8s_test

import (
	"fmt"

	"initbox/waitfor/k8s"
	"initbox/waitfor/target"
)

// A target is shown without its settings; a mistake in it is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&k8s.Kind}
	check, err := kinds.Parse("k8s:pods?selector=app=web#count=2", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("k8s:deploy/web#completions=1", target.Options{})
	fmt.Println(err)
	// Output:
	// k8s:pods?selector=app=web <nil>
	// k8s:deploy/web: completions: is for Jobs
}
