// Command pack compresses the scripts and styles in sources into assets. In the binary they take a third of their size,
// and they are served compressed anyway. A folder there is one script, in the order of its files' names: a page loads it
// with one request. go generate runs pack in the folder of package webui.
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
		name, parts := filepath.Base(file), []string{file}
		if filepath.Ext(file) == "" {
			name += ".js"
			if parts, err = filepath.Glob(filepath.Join(file, "*")); err != nil {
				log.Fatal(err)
			}
		}
		var text []byte
		for _, part := range parts {
			more, err := os.ReadFile(part)
			if err != nil {
				log.Fatal(err)
			}
			text = append(text, more...)
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
		if err := os.WriteFile(filepath.Join("assets", name+".gz"), b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
