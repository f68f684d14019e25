package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"time"
)

// file is a file in an archive. Its owner is root, and its time that of the source.
type file struct {
	name string
	mode fs.FileMode
	text []byte
}

// writeTarball writes files into a folder of a tar.gz. Nothing in it depends on where or when it is made:
// the gzip header has neither name nor time, and owners are numbers.
func writeTarball(w io.Writer, folder string, files []file, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, f.name), Mode: int64(f.mode.Perm()), Size: int64(len(f.text)), ModTime: date, Format: tar.FormatUSTAR}
		if f.mode.IsDir() {
			h.Typeflag, h.Name, h.Size = tar.TypeDir, h.Name+"/", 0
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// writeZip writes files into a folder of a zip file.
func writeZip(w io.Writer, folder string, files []file, date time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := to.Write(f.text); err != nil {
			return err
		}
	}
	return z.Close()
}
