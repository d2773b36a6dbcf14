// Command web counts its visitors in PostgreSQL. It checks nothing when it starts, and waits for nothing: its
// configuration, the database and the table have to be there.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	_ "github.com/lib/pq"
)

const settingsFile = "/config/web.json"

type settings struct {
	Title    string
	Database string // key=value pairs, as in a connection string of libpq
}

func main() {
	log.SetFlags(0)
	content, err := os.ReadFile(settingsFile)
	if err != nil {
		log.Fatal(err)
	}
	var s settings
	if err := json.Unmarshal(content, &s); err != nil {
		log.Fatalf("%s: %v", settingsFile, err)
	}
	db, err := sql.Open("postgres", s.Database)
	if err != nil {
		log.Fatal(err)
	}
	var before int64
	if err := db.QueryRow("SELECT count FROM visits WHERE page = '/'").Scan(&before); err != nil {
		log.Fatalf("reading the visits so far: %v", err)
	}
	log.Printf("%s: %d visits so far, listening on port 8080", s.Title, before)
	log.Fatal(http.ListenAndServe(":8080", handler(s.Title, db)))
}

func handler(title string, db *sql.DB) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := db.PingContext(r.Context()); err != nil {
			http.Error(w, "no database", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		var count int64
		err := db.QueryRowContext(r.Context(), "UPDATE visits SET count = count + 1 WHERE page = '/' RETURNING count").Scan(&count)
		if err != nil {
			log.Print(err)
			http.Error(w, "no database", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s: %d\n", title, count)
	})
	return mux
}
