// Command genfont compresses the font of the captions. "go generate" runs it in the folder of package scene.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"

	"golang.org/x/image/font/gofont/gomedium"
)

func main() {
	if err := run("gomedium.ttf.gz"); err != nil {
		fmt.Fprintln(os.Stderr, "genfont:", err)
		os.Exit(1)
	}
}

// run writes the font to a file.
func run(name string) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(gomedium.TTF); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
