// Command pictures completes what "make pictures" has taken: it makes the pictures small, and notes in
// docs/pictures/pages.json what each page consisted of when its picture was taken.
//
// A test compares that with the pages as they are, so that no picture shows a page that has changed since. What a page
// consists of is its markup and the rules of style for it, and nothing of the data that is shown; see page.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// folder is where the pictures are, and list what is known of them.
const (
	folder = "docs/pictures"
	list   = folder + "/pages.json"
)

// picture is a page of which there is a picture in light and in dark.
type picture struct {
	Name   string   `json:"name"`
	Page   string   `json:"page"` // its path
	As     string   `json:"as"`   // who sees it, as in the links of "sluice demo"; empty: a stranger
	Width  int      `json:"width"`
	Height int      `json:"height"`
	From   []string `json:"drawn_from"` // the files that its markup is in, and its styles
	Hash   string   `json:"hash"`       // of what the page consists of
}

// files returns the names of the picture's two files, in the folder.
func (p *picture) files() []string { return []string{p.Name + ".png", p.Name + "-dark.png"} }

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// run completes the pictures of the repository at root.
func run(root string) error {
	all, err := read(root)
	if err != nil {
		return err
	}
	for i := range all {
		p := &all[i]
		if p.Hash, err = page(root, p.From); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		for _, name := range p.files() {
			if err := shrink(filepath.Join(root, folder, name)); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, list), append(text, '\n'), 0o644)
}

// read returns the list of pictures.
func read(root string) (all []picture, err error) {
	text, err := os.ReadFile(filepath.Join(root, list))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}
