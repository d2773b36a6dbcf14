package forms_test

import (
	"fmt"

	"initbox/waitfor"
	"initbox/waitfor/forms"
)

func ExampleURL() {
	for _, text := range []string{
		"jdbc:postgresql://mydb:5432/app",
		"host=mydb user=app dbname=app",
		"app@tcp(mydb:3306)/app",
		"tcp://mydb:5432", // passes unchanged
	} {
		fmt.Println(forms.URL(text, waitfor.Kinds()))
	}
	// Output:
	// postgresql://mydb:5432/app <nil>
	// postgres://app@mydb/app <nil>
	// mysql://app@mydb:3306/app <nil>
	// tcp://mydb:5432 <nil>
}
