package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"slices"
)

// sources is what a configuration was read from. Config holds a pointer to it, so that fmt does not
// print the text, which may contain keys.
type sources struct {
	// text is the content of the configuration file.
	text []byte
	// files are all files that were read, the configuration file first, each with what was in it:
	// the file itself, those named by ${file:…}, the certificate and its key.
	files []source
	// raw holds the text of the settings that contain ${…}, by path.
	raw map[string]string
}

// source is a file and its content.
type source struct {
	path string
	is   digest
}

// digest identifies the content of a file. The zero digest stands for a file that does not exist.
// Content is compared and not the time of change: two writes within one tick of the file system's
// clock have the same time, and a tool that copies files may keep their times.
type digest [sha256.Size]byte

// unreadable is the digest of everything that exists and is not a readable regular file.
var unreadable = digest{1}

func digestOf(text []byte) digest { return sha256.Sum256(text) }

// add notes a file that was read.
func (s *sources) add(path string, is digest) { s.files = append(s.files, source{path, is}) }

// addFile notes a file that somebody else reads. It is read here before that: a change in between is
// then noticed as one.
func (s *sources) addFile(path string) { s.add(path, digestFile(path)) }

// digestFile returns what is in a file now. It opens regular files only: opening a named pipe would
// wait for somebody to write to it.
func digestFile(path string) digest {
	info, err := os.Stat(path) // follows links, also those that orchestrators swap
	if errors.Is(err, fs.ErrNotExist) {
		return digest{}
	}
	if err != nil || !info.Mode().IsRegular() {
		return unreadable
	}
	text, err := readBounded(path, maxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return digest{}
	case err != nil:
		return unreadable
	}
	return digestOf(text)
}

// onDisk returns one digest for what all files hold now.
func (s *sources) onDisk() digest {
	return s.sum(func(f source) digest { return digestFile(f.path) })
}

// inForce returns what onDisk returned when the configuration was read.
func (s *sources) inForce() digest {
	return s.sum(func(f source) digest { return f.is })
}

func (s *sources) sum(of func(source) digest) digest {
	all := sha256.New()
	for _, f := range s.files {
		is := of(f)
		_, _ = all.Write(is[:]) // never fails
	}
	return digest(all.Sum(nil))
}

// unfinished reports whether the configuration file looks as if somebody were still writing it: it is
// open for writing, or it is a beginning of the one in force, or its last line has no end, although
// that of the one in force has. Each of them may be meant, so this is a reason to wait and not to
// refuse.
func (s *sources) unfinished() bool {
	path := s.files[0].path
	text, err := readBounded(path, maxFileBytes)
	if err != nil {
		return false // reading it will say what is wrong
	}
	end := []byte("\n")
	return openForWriting(path) || len(text) < len(s.text) && bytes.HasPrefix(s.text, text) ||
		bytes.HasSuffix(s.text, end) && !bytes.HasSuffix(text, end)
}

// havePipe reports whether one of the files is a named pipe now. Loading would wait for its writer.
func (s *sources) havePipe() bool {
	return slices.ContainsFunc(s.files, func(f source) bool {
		info, err := os.Stat(f.path)
		return err == nil && info.Mode()&fs.ModeNamedPipe != 0
	})
}

// Replaces reports whether c may take the place of old in a running server. A file that was there
// must still be there, and must not be empty: otherwise an editor or a deployment that is about to
// write it would replace every setting by its default. At a start both are fine.
func (c *Config) Replaces(old *Config) error {
	if old.file != "" && c.file == "" {
		return &Error{File: old.file, Problem: "the file is gone; put it back, or restart to run without one"}
	}
	if c.file != "" && len(bytes.TrimSpace(c.from.text)) == 0 {
		return &Error{File: c.file, Problem: "the file is empty; write a comment into it if you mean the defaults"}
	}
	return nil
}
