package prepare_test

import (
	"context"
	"fmt"
	"os"

	"initbox/volume/prepare"
)

func Example() {
	volume, err := os.MkdirTemp("", "volume-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(volume)
	var o prepare.Options
	for _, arg := range []string{volume + "/data/db#mode=0700", volume + "/ready#file&mode=0640", volume + "/latest#link=data"} {
		path, err := prepare.Parse(arg, nil)
		if err != nil {
			panic(err)
		}
		o.Paths = append(o.Paths, path)
	}
	if err := prepare.Run(context.Background(), o); err != nil {
		panic(err)
	}
	for _, name := range []string{"data/db", "ready", "latest"} {
		info, _ := os.Lstat(volume + "/" + name)
		fmt.Println(info.Mode(), name)
	}
	// Output:
	// drwx------ data/db
	// -rw-r----- ready
	// Lrwxrwxrwx latest
}
