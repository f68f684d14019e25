package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"time"
)

// file is a file or a folder in an archive. Its time is that of the source.
type file struct {
	name  string
	mode  fs.FileMode
	text  []byte
	owner int // the number of its user and group; 0 is root
}

// writeTar writes files into a folder of a tar. Nothing in it depends on where or when it is made: owners are numbers.
func writeTar(w io.Writer, folder string, files []file, date time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, f.name), Mode: int64(f.mode.Perm()), Size: int64(len(f.text)),
			Uid: f.owner, Gid: f.owner, ModTime: date, Format: tar.FormatUSTAR,
		}
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
	return t.Close()
}

// writeTarball writes files into a folder of a tar.gz.
func writeTarball(w io.Writer, folder string, files []file, date time.Time) error {
	var plain bytes.Buffer
	if err := writeTar(&plain, folder, files, date); err != nil {
		return err
	}
	text, err := squeeze(plain.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// squeeze compresses text, without the name and the time that gzip usually notes.
func squeeze(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
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
