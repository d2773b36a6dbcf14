package mysql_test

import (
	"fmt"

	"initbox/waitfor/mysql"
	"initbox/waitfor/target"
)

// The data source name of Go's driver is shown as a URL without its credentials; a mistake is reported before
// anything is tried.
func Example() {
	kinds := target.Kinds{&mysql.Kind}
	check, err := kinds.Parse("app:hunter2@tcp(mydb:3306)/app?tls=true", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("mysql://mydb#query=SELECT 1", target.Options{})
	fmt.Println(err)
	// Output:
	// mysql://mydb:3306/app?… <nil>
	// mysql://mydb: query needs a user: mysql://USER@HOST, or the setting user
}
