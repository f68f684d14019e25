// Command pack compresses the migrations into one file, which the binary holds: a quarter of their size. go generate
// runs it in the folder of package sqlstore.
package main

import (
	"bytes"
	"compress/gzip"
	"log"
	"os"
	"path/filepath"
)

func main() {
	files, err := filepath.Glob(filepath.Join("migrations", "*.sql"))
	if err != nil {
		log.Fatal(err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files { // in the order of their numbers
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		// A NUL, which SQL cannot contain, ends the name and the text.
		for _, part := range [][]byte{[]byte(filepath.Base(file)), text} {
			if _, err := z.Write(append(part, 0)); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("migrations.gz", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
