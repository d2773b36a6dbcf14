// Command mongodb is FerretDB with SQLite: a server that speaks MongoDB's protocol, and is available as a Go module. It
// is always a standalone server, a primary without a replica set.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	log.SetFlags(log.Lmicroseconds)
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	cert := flag.String("cert", "", "PEM `file` with the certificate chain; with --key, serves TLS")
	key := flag.String("key", "", "PEM `file` with the private key")
	data := flag.String("data", "", "`directory` for the databases")
	flag.Parse()

	listener := ferretdb.ListenerConfig{TCP: *listen}
	if *cert != "" {
		listener = ferretdb.ListenerConfig{TLS: *listen, TLSCertFile: *cert, TLSKeyFile: *key}
	}
	slog.SetLogLoggerLevel(slog.LevelWarn)
	f, err := ferretdb.New(&ferretdb.Config{Listener: listener, Handler: "sqlite", SQLiteURL: "file:" + *data + "/"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.Run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
