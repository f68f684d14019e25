// Command packed compresses files that are part of the program, which then takes less room.
//
//	go run sluice/tools/packed migrations.gz migrations/*.sql
//
// The first argument is the file to write. One file is compressed as it is; several are put behind each other, each after
// a line "-- name --".
package main

import (
	"bytes"
	"compress/gzip"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: packed OUT FILE...")
	}
	var all bytes.Buffer
	for _, pattern := range os.Args[2:] {
		files, err := filepath.Glob(pattern) // go generate does not expand patterns
		if err != nil || len(files) == 0 {
			log.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files { // in order
			text, err := os.ReadFile(file)
			if err != nil {
				log.Fatal(err)
			}
			if len(files) > 1 {
				all.WriteString("-- " + filepath.Base(file) + " --\n")
			}
			all.Write(text)
		}
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := z.Write(all.Bytes()); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
