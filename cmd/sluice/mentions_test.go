package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// mention matches a command that a page names in its text or in a block: `sluice config check`.
var mention = regexp.MustCompile("(?m)(?:`|^ *)sluice ([a-z][^`\n]*)")

// TestCommandsOfDocs looks up every command and flag that a page names.
func TestCommandsOfDocs(t *testing.T) {
	t.Parallel()
	root := (&program{}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	seen := 0
	for _, page := range docPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mention.FindAllStringSubmatch(string(text), -1) {
			seen++
			if wrong := unknownIn(root, m[1]); wrong != "" {
				t.Errorf("%s names %q: there is no %s", strings.TrimPrefix(page, "../../"), "sluice "+m[1], wrong)
			}
		}
	}
	if seen < 100 {
		t.Errorf("the pages name %d commands, want 100 at least", seen)
	}
}

// docPages returns the pages that people read. Decisions tell of commands as they were.
func docPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md"}
	for _, top := range []string{"../../docs", "../../deploy"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && d.Name() == "decisions" {
				return fs.SkipDir
			}
			if filepath.Ext(path) == ".md" && d.Name() != "cli.md" { // which is made from the commands
				pages = append(pages, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// unknownIn returns the first word of a command line that is neither a command, a flag nor an argument; "" if there is
// none.
func unknownIn(c *cobra.Command, line string) string {
	words := strings.Fields(regexp.MustCompile(` +[#|&>;].*| {2,}.*`).ReplaceAllString(line, "")) // comments, pipes, a column beside it
	for len(words) > 0 && c.HasSubCommands() && !strings.HasPrefix(words[0], "-") {               // most such commands have no arguments
		below, _, err := c.Find(words[:1])
		if below == c && strings.Contains(c.Use, " ") {
			break
		}
		if err != nil || below == c {
			return "command " + words[0]
		}
		c, words = below, words[1:]
	}
	c.InitDefaultHelpFlag()
	for _, word := range words {
		name, isFlag := strings.CutPrefix(strings.Trim(word, "[]"), "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && c.Flag(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return "flag --" + name
		}
	}
	return ""
}
