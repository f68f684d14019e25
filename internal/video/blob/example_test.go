package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/internal/video/blob"
)

// Put stores what the function writes, and returns its size and hash.
func ExampleDisk_Put() {
	files, remove := folder()
	defer remove()
	ctx := context.Background()
	info, err := files.Put(ctx, "clips/one.mp4", func(w io.Writer) error {
		_, err := io.WriteString(w, "some bytes")
		return err
	})
	fmt.Println(info.Size, info.SHA256[:8], err)

	f, err := files.Open(ctx, "clips/one.mp4")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	fmt.Printf("%s\n", text)
	// Output:
	// 10 0d22cdcc <nil>
	// some bytes
}

// A file whose writer fails never appears under its name.
func ExampleDisk_Put_failed() {
	files, remove := folder()
	defer remove()
	ctx := context.Background()
	_, err := files.Put(ctx, "one.mp4", func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of")
		return errors.New("the provider died")
	})
	fmt.Println(err != nil)
	_, err = files.Open(ctx, "one.mp4")
	fmt.Println(errors.Is(err, blob.ErrNotExist))
	// Output:
	// true
	// true
}

// folder returns an empty store, and what removes it.
func folder() (files *blob.Disk, remove func()) {
	dir, err := os.MkdirTemp("", "blob-example-")
	if err != nil {
		panic(err)
	}
	files, err = blob.NewDisk(dir)
	if err != nil {
		panic(err)
	}
	return files, func() { os.RemoveAll(dir) }
}
