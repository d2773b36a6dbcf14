package wildmatch_test

import (
	"fmt"

	"initbox/clone/wildmatch"
)

func ExampleMatch() {
	fmt.Println(wildmatch.Match("docs/**/*.md", "docs/a/b/index.md", true))
	fmt.Println(wildmatch.Match("docs/*.md", "docs/a/b/index.md", true))
	// Output:
	// true
	// false
}
