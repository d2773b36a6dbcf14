package stage_test

import (
	"fmt"
	"log"
	"os"

	"initbox/internal/stage"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for _, content := range []string{"port: 80\n", "port: 8080\n", "port: 8080\n"} {
		s, err := stage.Open(dir, stage.Options{})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := s.Put("conf.d/app.yaml", []byte(content), stage.Attr{Mode: 0o644, UID: -1, GID: -1}); err != nil {
			log.Fatal(err)
		}
		changes, err := s.Commit()
		fmt.Println(changes, err)
		s.Close()
	}
	// Output:
	// [{conf.d/app.yaml created 9 false}] <nil>
	// [{conf.d/app.yaml changed 11 false}] <nil>
	// [] <nil>
}
