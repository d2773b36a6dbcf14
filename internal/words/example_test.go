package words_test

import (
	"fmt"
	"time"

	"initbox/internal/words"
)

func Example() {
	names := []string{"mydb", "mydb.svc"}
	fmt.Printf("%s in %s: %s\n", words.Plural(len(names), "name"), words.Seconds(1234*time.Millisecond), words.List(names))
	// Output: 2 names in 1.2s: mydb, mydb.svc
}
