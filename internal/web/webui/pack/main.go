// Command pack compresses the scripts and styles in sources into assets. In the binary they take a third of their size,
// and they are served compressed anyway. go generate runs it in the folder of package webui.
package main

import (
	"bytes"
	"compress/gzip"
	"log"
	"os"
	"path/filepath"
)

func main() {
	files, err := filepath.Glob(filepath.Join("sources", "*"))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := z.Write(text); err != nil {
			log.Fatal(err)
		}
		if err := z.Close(); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("assets", filepath.Base(file)+".gz"), b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
