package tlsconfig_test

import (
	"fmt"

	"initbox/internal/tlsconfig"
)

func ExampleOptions_Load() {
	o := tlsconfig.Options{ServerName: "db.example.test"}
	conf, err := o.Load() // again for each attempt: files rotate
	fmt.Println(conf.ServerName, conf.InsecureSkipVerify, err)
	// Output: db.example.test false <nil>
}
