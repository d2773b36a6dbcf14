package access_test

import (
	"fmt"

	"initbox/clone/access"
)

func ExampleAccess() {
	a := access.Access{Umask: 0o027, GroupWrite: true}
	fmt.Println(a.File(false), a.File(true), a.Directory())
	// Output: -rw-rw---- -rwxrwx--- grwxrwx---
}
