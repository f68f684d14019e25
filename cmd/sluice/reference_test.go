package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReferenceIsCurrent holds docs/cli.md to the commands.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	want := cliPage((&program{}).root())
	if *update {
		if err := os.WriteFile("../../docs/cli.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("../../docs/cli.md"); err != nil || string(got) != want {
		t.Errorf("docs/cli.md is not what the commands say (%v): run go generate ./cmd/sluice", err)
	}
}

// Every command for people is in the reference. An example of it has a value for every name in its usage line.
func TestReferenceHasEveryCommand(t *testing.T) {
	t.Parallel()
	root := (&program{}).root()
	page := cliPage(root)
	name := regexp.MustCompile(`\b[A-Z]{2,}\b|\[`)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c != root && !strings.Contains(page, "\n### "+c.CommandPath()+"\n") {
			t.Errorf("docs/cli.md lacks %s", c.CommandPath())
		}
		if c.Example == "" && name.MatchString(strings.ReplaceAll(example(c), "UTC", "")) {
			t.Errorf("the example of %s is %q: add what it lacks to samples", c.CommandPath(), example(c))
		}
		for _, sub := range c.Commands() {
			if forPeople(sub) {
				walk(sub)
			}
		}
	}
	walk(root)
	if strings.Contains(page, "\n## More\n") {
		t.Error("docs/cli.md has commands without a group: add them to commandGroups")
	}
}
