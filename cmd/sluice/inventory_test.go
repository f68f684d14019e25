package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/app/config"
)

var update = flag.Bool("update", false, "write testdata/inventory.txt and docs/cli.md again")

// TestInventory compares what the product offers with a list of it: routes and pages, commands and their flags,
// settings, metrics. Nothing of that comes or goes by accident. After a deliberate change write the list again:
//
//	go test -run TestInventory ./cmd/sluice -update
func TestInventory(t *testing.T) {
	t.Parallel()
	const list = "testdata/inventory.txt"
	var all []string
	for _, route := range allRoutes() {
		all = append(all, "route "+route)
	}
	all = append(all, commands((&program{}).root())...)
	all = append(all, settings()...)
	all = append(all, documentedMetrics(t)...)
	slices.Sort(all)
	got := strings.Join(slices.Compact(all), "\n") + "\n"
	if *update {
		if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the product differs from %s: -list +product\n%s", list, diff)
	}
}

// commands returns the lines of a command and of all those below it.
func commands(c *cobra.Command) []string {
	lines := []string{"command " + c.CommandPath()}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		lines = append(lines, "flag "+c.CommandPath()+" --"+f.Name+" "+f.Value.Type())
	})
	for _, below := range c.Commands() {
		lines = append(lines, commands(below)...)
	}
	return lines
}

// settings returns the lines of the settings that the reference names.
func settings() (lines []string) {
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(config.Docs(), -1) {
		lines = append(lines, "setting "+m[1])
	}
	return lines
}

// documentedMetrics returns the lines of the metrics in docs/care/observability.md, which a test of app compares with
// those of a running server.
func documentedMetrics(t *testing.T) (lines []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/care/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(sluice|gen_ai|go_sql)_[a-z_]+[a-z]\b`).FindAllString(string(page), -1) {
		lines = append(lines, "metric "+name)
	}
	return lines
}
