package postgres_test

import (
	"fmt"

	"initbox/waitfor/postgres"
	"initbox/waitfor/target"
)

// A connection string is shown as a URL without its credentials; a mistake is reported before anything is tried.
func Example() {
	kinds := target.Kinds{&postgres.Kind}
	check, err := kinds.Parse("host=mydb user=app password=hunter2 dbname=app", target.Options{})
	fmt.Println(check, err)
	_, err = kinds.Parse("postgres://mydb#query=SELECT 1", target.Options{})
	fmt.Println(err)
	// Output:
	// postgres://mydb/app <nil>
	// postgres://mydb: query and target_session_attrs need a user: postgres://USER@HOST, the setting user, or PGUSER
}
