// Command gen generates openapi.json.gz and reference.html.gz from openapi.yaml. "go generate" runs
// it in the directory of the three files.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"

	"sluice/api/gen/render"
)

// main runs the generator and reports its error.
func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run reads the document and writes the two files. It writes nothing unless both can be generated.
func run() error {
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return err
	}
	doc, err := render.Parse(source)
	if err != nil {
		return err
	}
	page, err := doc.Page()
	if err != nil {
		return err
	}
	if err := pack("openapi.json.gz", doc.JSON()); err != nil {
		return err
	}
	return pack("reference.html.gz", page)
}

// pack writes a file, compressed.
func pack(name string, text []byte) error {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644)
}
