//go:build unix

package config

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// folder is a folder with a watched configuration. Its methods fail the test on errors, and wait in
// the virtual time of the test's bubble.
type folder struct {
	t   *testing.T
	dir string
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// write writes a file in place, as "cat > file" does. DIR in the text stands for the folder.
func (f folder) write(name, text string) {
	f.do(os.WriteFile(f.path(name), []byte(strings.ReplaceAll(text, "DIR", f.dir)), 0o600))
}

// add appends to a file.
func (f folder) add(name, text string) {
	file, err := os.OpenFile(f.path(name), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	f.do(err)
	_, err = file.WriteString(text)
	f.do(err)
	f.do(file.Close())
}

func (f folder) rename(from, to string) { f.do(os.Rename(f.path(from), f.path(to))) }
func (f folder) remove(name string)     { f.do(os.Remove(f.path(name))) }

// link makes name a link to target, in one step.
func (f folder) link(target, name string) {
	f.do(os.Symlink(target, f.path(name+".new")))
	f.rename(name+".new", name)
}

func (f folder) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) wait(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

// The brand stands for everything that a configuration says.
const (
	oneYAML = "brand: one\nsandbox: true\ndiscover: false\n"
	twoYAML = "sandbox: true\ndiscover: false\nbrand: two\n"
)

// TestWatch changes files in the ways in which people and programs do, and compares what was loaded.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(f folder)
		want   []string // the brands that were loaded, or the mistakes
	}{
		"nothing":          {func(folder) {}, nil},
		"written in place": {func(f folder) { f.write("sluice.yaml", twoYAML) }, []string{"two"}},
		"touched":          {func(f folder) { f.do(os.Chtimes(f.path("sluice.yaml"), time.Time{}, time.Unix(1, 0))) }, nil},
		"the time of the old file, and its size": {func(f folder) {
			info, err := os.Stat(f.path("sluice.yaml"))
			f.do(err)
			f.write("sluice.yaml", strings.Replace(oneYAML, "one", "two", 1))
			f.do(os.Chtimes(f.path("sluice.yaml"), time.Time{}, info.ModTime()))
		}, []string{"two"}},
		"replaced by renaming": {func(f folder) { f.write("new", twoYAML); f.rename("new", "sluice.yaml") }, []string{"two"}},
		"saved by vim, which moves the old file away and writes a new one": {func(f folder) {
			f.rename("sluice.yaml", "sluice.yaml~")
			f.wait(1500 * time.Millisecond)
			f.write("sluice.yaml", twoYAML)
			f.remove("sluice.yaml~")
		}, []string{"two"}},
		"moved away and back": {func(f folder) {
			f.rename("sluice.yaml", "away")
			f.wait(2 * time.Second)
			f.rename("away", "sluice.yaml")
		}, nil},
		"gone for two seconds, then another": {func(f folder) {
			f.remove("sluice.yaml")
			f.wait(2 * time.Second)
			f.write("sluice.yaml", twoYAML)
		}, []string{"two"}},
		"gone for long": {func(f folder) {
			f.remove("sluice.yaml")
			f.wait(time.Minute)
			f.write("sluice.yaml", twoYAML)
		}, []string{"sluice.yaml: the file is gone; put it back, or restart to run without one", "two"}},
		"gone for long, then as before": {func(f folder) {
			f.rename("sluice.yaml", "away")
			f.wait(time.Minute)
			f.rename("away", "sluice.yaml")
		}, []string{"sluice.yaml: the file is gone; put it back, or restart to run without one", "restored"}},
		"truncated for two seconds": {func(f folder) {
			f.write("sluice.yaml", "")
			f.wait(2 * time.Second)
			f.write("sluice.yaml", twoYAML)
		}, []string{"two"}},
		"truncated for long": {func(f folder) {
			f.write("sluice.yaml", "")
			f.wait(2 * time.Minute)
			f.write("sluice.yaml", twoYAML)
		}, []string{"sluice.yaml: the file is empty; write a comment into it if you mean the defaults", "two"}},
		"written line by line": {func(f folder) {
			f.write("sluice.yaml", "")
			for line := range strings.Lines(twoYAML) {
				f.add("sluice.yaml", line)
				f.wait(2900 * time.Millisecond)
			}
		}, []string{"two"}},
		"written in halves, the first a beginning of the old one": {func(f folder) {
			f.write("sluice.yaml", "brand: one\n")
			f.wait(20 * time.Second)
			f.add("sluice.yaml", "sandbox: false\n")
		}, []string{"one"}},
		"written in halves, in the middle of a line": {func(f folder) {
			f.write("sluice.yaml", "sandbox: true\nbrand: t")
			f.wait(20 * time.Second)
			f.add("sluice.yaml", "wo\n")
		}, []string{"two"}},
		"shortened, and meant": {func(f folder) { f.write("sluice.yaml", "brand: one\n"); f.wait(time.Minute) }, []string{"one"}},
		"held open by its writer": {func(f folder) {
			file, err := os.OpenFile(f.path("sluice.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
			f.do(err)
			_, err = file.WriteString("sandbox: true\n")
			f.do(err)
			f.wait(20 * time.Second)
			_, err = file.WriteString("brand: two\n")
			f.do(err)
			f.do(file.Close())
		}, []string{"two"}},
		"a mistake, and its correction": {func(f folder) {
			f.write("sluice.yaml", "brand: ONE\n")
			f.wait(time.Minute)
			f.write("sluice.yaml", twoYAML)
		}, []string{`sluice.yaml:1:8: brand: "ONE" is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end`, "two"}},
		"a file that it names comes later": {func(f folder) {
			f.write("sluice.yaml", "brand: ${file:DIR/brand}\n")
			f.wait(time.Minute)
			f.write("brand", "two\n")
		}, []string{`sluice.yaml:1:8: brand: cannot read "…": no such file or directory`, "two"}},
		"a link to another file": {func(f folder) { f.write("two.yaml", twoYAML); f.link("two.yaml", "sluice.yaml") }, []string{"two"}},
		"a folder in its place": {func(f folder) {
			f.remove("sluice.yaml")
			f.do(os.Mkdir(f.path("sluice.yaml"), 0o700))
			f.wait(10 * time.Second)
			f.remove("sluice.yaml")
			f.write("sluice.yaml", twoYAML)
		}, []string{"sluice.yaml: cannot read the file: is a directory", "two"}},
		// Opening it would wait for ever.
		"a named pipe in its place": {func(f folder) {
			f.remove("sluice.yaml")
			f.do(syscall.Mkfifo(f.path("sluice.yaml"), 0o600))
			f.wait(time.Minute)
			f.remove("sluice.yaml")
			f.write("sluice.yaml", twoYAML)
		}, []string{"two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := folder{t, dir}
				f.write("sluice.yaml", oneYAML)
				if got := watched(f, tt.change); !slices.Equal(got, tt.want) {
					t.Errorf("loaded, -want +got\n%s", cmp.Diff(tt.want, got))
				}
			})
		})
	}
}

// A ConfigMap of Kubernetes is a link to a link. An update makes a new folder, swaps ..data and
// removes the old folder.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := folder{t, dir}
		version := func(name, text, key string) {
			f.do(os.Mkdir(f.path(name), 0o700))
			f.write(name+"/sluice.yaml", text)
			f.write(name+"/brand", key)
			f.link(name, "..data")
		}
		version("..1", "brand: ${file:DIR/brand}\n", "one\n")
		f.link("..data/sluice.yaml", "sluice.yaml")
		f.link("..data/brand", "brand")
		got := watched(f, func(f folder) {
			version("..2", "brand: ${file:DIR/brand}\n", "two\n")
			f.do(os.RemoveAll(f.path("..1")))
			f.wait(10 * time.Second)
			version("..3", "brand: three\n", "two\n")
			f.do(os.RemoveAll(f.path("..2")))
		})
		if want := []string{"two", "three"}; !slices.Equal(got, want) {
			t.Errorf("loaded %q, want %q", got, want)
		}
	})
}

// A secret that is rotated is loaded, although the configuration file stays as it is. So is a
// certificate.
func TestWatchNamedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := folder{t, dir}
		f.write("brand", "one\n")
		f.write("cert", "a")
		f.write("key", "a")
		f.write("sluice.yaml", "brand: ${file:DIR/brand}\ntls: {cert: DIR/cert, key: DIR/key}\n")
		got := watched(f, func(f folder) {
			f.write("brand", "") // a shell truncates the file before the command writes to it
			f.wait(2 * time.Second)
			f.write("brand", "two\n")
			f.wait(10 * time.Second)
			f.write("cert", "b")
			f.wait(2 * time.Second)
			f.write("key", "b") // together with its certificate
			f.wait(10 * time.Second)
			f.remove("brand")
			f.wait(time.Minute)
			f.write("brand", "three\n")
		})
		want := []string{"two", "two", `sluice.yaml:1:8: brand: cannot read "…": no such file or directory`, "three"}
		if !slices.Equal(got, want) {
			t.Errorf("loaded, -want +got\n%s", cmp.Diff(want, got))
		}
	})
}

// A file that did not exist at the start is loaded when it is created.
func TestWatchDefaultFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	synctest.Test(t, func(t *testing.T) {
		got := watched(folder{t, dir}, func(f folder) { f.write("sluice.yaml", twoYAML) })
		if want := []string{"two"}; !slices.Equal(got, want) {
			t.Errorf("loaded %q, want %q", got, want)
		}
	})
}

// quoted is a path in a message. How much of it is shown depends on the machine.
var quoted = regexp.MustCompile(`read "[^"]+"`)

// watched watches the file sluice.yaml of the folder while change runs. It returns what was loaded:
// the brand, or the mistake, each once; and "restored".
func watched(f folder, change func(folder)) (loaded []string) {
	load := func() (*Config, error) {
		src := Source{Path: f.path("sluice.yaml")}
		if _, err := os.Lstat(src.Path); err != nil {
			src.Path = "" // as if it had been found by its default name
		}
		return Load(src)
	}
	current, err := load()
	f.do(err)
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	note := func(what string) {
		what = quoted.ReplaceAllString(strings.ReplaceAll(what, f.dir+"/sluice.yaml", "sluice.yaml"), `read "…"`)
		if len(loaded) == 0 || loaded[len(loaded)-1] != what || !strings.Contains(what, ": ") {
			loaded = append(loaded, what)
		}
	}
	reload := func() error {
		c, err := load()
		if err == nil {
			err = c.Replaces(current)
		}
		if err != nil {
			note(err.Error())
			return err
		}
		current = c
		note(c.Brand)
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, func() *Config { return current }, reload, func() { note("restored") })
	}()
	f.wait(2500 * time.Millisecond) // between two looks
	change(f)
	f.wait(15 * time.Second)
	cancel()
	<-done
	return loaded
}
