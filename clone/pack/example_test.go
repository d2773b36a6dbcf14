package pack_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"fmt"
	"log"
	"os"

	"initbox/clone/pack"
)

// printer is a Sink that prints objects.
type printer struct{}

func (printer) Add(_ int, o *pack.Object, c pack.Content) error {
	fmt.Printf("%s %s %q\n", o.Kind, o.ID, c.Bytes)
	return nil
}

func (printer) Base(*pack.Object, []byte) ([]byte, bool) { return nil, false }

func ExampleRead() {
	// A pack with one blob of six bytes.
	var data bytes.Buffer
	data.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x36")
	z := zlib.NewWriter(&data)
	z.Write([]byte("hello\n"))
	z.Close()
	sum := sha1.Sum(data.Bytes())
	data.Write(sum[:])

	temp := func() (*os.File, error) { return os.CreateTemp("", "pack") }
	spool, err := temp()
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	p, err := pack.Read(context.Background(), &data, pack.Options{Spool: spool, Sink: printer{}, Temp: temp})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Len(), "object")
	// Output:
	// blob ce013625030ba8dba906f756967f9e9ca394464a "hello\n"
	// 1 object
}
