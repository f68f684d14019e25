package main

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Every picture shows its page as it is: nothing that the page consists of has changed since it was taken.
func TestPicturesAreCurrent(t *testing.T) {
	t.Parallel()
	all, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		now, err := page(root, p.From)
		if err != nil {
			t.Fatal(err)
		}
		if now != p.Hash {
			t.Errorf("the page %s has changed since %s was taken: run make pictures, look at the pictures, and commit them", p.Page, strings.Join(p.files(), " and "))
		}
	}
}

// The folder has the pictures of the list, in light and dark, of the size that the list says, and nothing else. The
// program holds them, so they are small.
func TestPicturesAreSmall(t *testing.T) {
	t.Parallel()
	const most, mostOfAll = 130 << 10, 2 << 20
	all, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	want, sum := []string{"pages.json"}, int64(0)
	for _, p := range all {
		want = append(want, p.files()...)
		for _, name := range p.files() {
			f, err := os.Open(filepath.Join(root, folder, name))
			if err != nil {
				t.Error(err)
				continue
			}
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.DecodeConfig(f)
			if err != nil || img.Width != p.Width || img.Height != p.Height {
				t.Errorf("%s is %d by %d, %v; want %d by %d", name, img.Width, img.Height, err, p.Width, p.Height)
			}
			if info.Size() > most {
				t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), most)
			}
			sum += info.Size()
			f.Close()
		}
	}
	if sum > mostOfAll {
		t.Errorf("the pictures have %d bytes, want at most %d", sum, mostOfAll)
	}
	entries, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(want, e.Name()) && filepath.Ext(e.Name()) != ".svg" {
			t.Errorf("%s is not in %s", e.Name(), list)
		}
	}
}

// What a page consists of changes with its words, its classes and their rules, and with nothing else.
func TestPage(t *testing.T) {
	t.Parallel()
	const markup, sheet = "package p\n\nimport \"fmt\"\n\nfunc f() { fmt.Print(\"<p class=\\\"note\\\">Hello\") }\n", ".note { color: red } .other { color: red } @media print { .note { color: black } }"
	hash := func(markup, sheet string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{"a_templ.go": markup, "a.css": sheet} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := page(dir, []string{"a_templ.go", "a.css"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	was := hash(markup, sheet)
	for _, c := range []struct {
		name, markup, sheet string
		same                bool
	}{
		{"nothing", markup, sheet, true},
		{"a comment", strings.Replace(markup, "func", "// f greets.\nfunc", 1), "/* style */ " + sheet, true},
		{"another import", strings.Replace(markup, `import "fmt"`, `import fmt "log"`, 1), sheet, true},
		{"a rule of another page", markup, strings.Replace(sheet, ".other { color: red }", ".other { color: blue }", 1), true},
		{"the space in a rule", markup, strings.ReplaceAll(sheet, "{ color: red }", "{\n  color: red\n}"), true},
		{"a word", strings.Replace(markup, "Hello", "Welcome", 1), sheet, false},
		{"a class", strings.Replace(markup, "note", "other", 1), sheet, false},
		{"a rule", markup, strings.Replace(sheet, ".note { color: red }", ".note { color: blue }", 1), false},
		{"a rule for print", markup, strings.Replace(sheet, "black", "grey", 1), false},
	} {
		if got := hash(c.markup, c.sheet) == was; got != c.same {
			t.Errorf("after a change of %s, the hash is the same: %t, want %t", c.name, got, c.same)
		}
	}
}

// A picture with few colours keeps them; one with many gets a palette, and large areas their exact colour.
func TestReduce(t *testing.T) {
	t.Parallel()
	img := image.NewRGBA(image.Rect(0, 0, 100, 100))
	paper := color.RGBA{251, 251, 252, 255}
	for y := range 100 {
		for x := range 100 {
			if img.Set(x, y, paper); y > 60 {
				img.Set(x, y, color.RGBA{uint8(x * 2), uint8(y * 2), uint8(x + y), 255})
			}
		}
	}
	out := reduce(img)
	if got := out.At(10, 10); got != paper {
		t.Errorf("the paper is %v, want %v", got, paper)
	}
	if n := len(out.Palette); n > colours {
		t.Errorf("%d colours, want at most %d", n, colours)
	}
	for _, at := range []image.Point{{10, 80}, {90, 65}, {50, 99}} {
		want, got := rgbOf(img.At(at.X, at.Y)), rgbOf(out.At(at.X, at.Y))
		for c := range 3 {
			if d := int(want[c]) - int(got[c]); d < -24 || d > 24 {
				t.Errorf("the pixel at %v is %v, want about %v", at, got, want)
			}
		}
	}
}
