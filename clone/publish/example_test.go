package publish_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"initbox/clone/publish"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx, sha := context.Background(), strings.Repeat("1a", 20)
	for range 2 {
		target, err := publish.Open(ctx, publish.Options{Dir: filepath.Join(dir, "app")})
		if err != nil {
			log.Fatal(err)
		}
		if m := target.Current(); m != nil && m.SHA == sha {
			fmt.Println("unchanged")
		} else if err := fill(ctx, target, sha); err != nil {
			log.Fatal(err)
		} else {
			fmt.Println("published")
		}
		target.Close()
	}
	// Output:
	// published
	// unchanged
}

func fill(ctx context.Context, target *publish.Target, sha string) error {
	stage, err := target.Stage()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(stage.Tree, "README"), []byte("read me\n"), 0o644); err != nil {
		return err
	}
	return target.Publish(ctx, stage, publish.Marker{SHA: sha})
}
