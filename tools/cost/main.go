// Command cost prints what each module costs in the binary, and in the time to build it.
//
// The linker says which symbol needs which other ones (-dumpdep). A module's size is that of all symbols
// that would not be in the binary without it, so what two modules share counts for neither. It is an estimate and
// rather too small: what the linker puts together, such as tables of types, has no size of its own. The CPU
// time is that of a build with an empty cache (-cold), a few minutes.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/bench/process"
)

// least is the smallest module that is printed, in bytes.
const least = 100_000

// perText is what a byte of machine code adds in tables: where it came from, and what it keeps alive.
const perText = 0.75

func main() {
	cold := flag.Bool("cold", false, "also build with an empty cache, and print the CPU time of each module")
	flag.Parse()
	process.Main("cost", func(ctx context.Context, out io.Writer) error { return run(ctx, out, *cold) })
}

// run builds the binary and prints the table.
func run(ctx context.Context, out io.Writer, cold bool) error {
	dir, err := os.MkdirTemp("", "sluice-cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	modules, err := modulesOf(ctx)
	if err != nil {
		return err
	}
	g, err := read(ctx, dir, modules)
	if err != nil {
		return err
	}
	seconds := map[string]float64{}
	if cold {
		if seconds, err = times(ctx, dir, modules); err != nil {
			return err
		}
	}
	g.print(out, seconds)
	return nil
}

// standard is what packages of Go's standard library count as.
const standard = "std"

// modulesOf returns the module of each package in the binary.
func modulesOf(ctx context.Context) (map[string]string, error) {
	out, err := command(ctx, "go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}"+standard+"{{end}}", "./cmd/sluice").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if p, m, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[p] = m
		}
	}
	return modules, nil
}

// command runs a program of the Go tool as a release is built: without cgo.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// graph is the symbols of a binary, by number.
type graph struct {
	numbers map[string]int
	needs   [][]int
	sizes   []float64
	modules []string // of each symbol; empty if it has none
}

// number returns the number of a symbol.
func (g *graph) number(name string, modules map[string]string) int {
	n, ok := g.numbers[name]
	if !ok {
		n = len(g.needs)
		g.numbers[name] = n
		g.needs, g.sizes, g.modules = append(g.needs, nil), append(g.sizes, 0), append(g.modules, modules[packageOf(name, modules)])
	}
	return n
}

// packageOf returns the package of a symbol, such as net/http for net/http.(*Client).Do.
func packageOf(symbol string, modules map[string]string) string {
	for _, prefix := range []string{"type:.eq.", "type:.hash.", "type:.namedata.", "type:", "go:itab."} {
		symbol = strings.TrimPrefix(symbol, prefix)
	}
	symbol = strings.TrimLeft(symbol, "*[]")
	// The package ends at the first dot after the last slash before any bracket.
	if i := strings.IndexAny(symbol, "([ {"); i >= 0 {
		symbol = symbol[:i]
	}
	slash := strings.LastIndexByte(symbol, '/') + 1
	for at := slash; ; {
		dot := strings.IndexByte(symbol[at:], '.')
		if dot < 0 {
			return symbol
		}
		if at += dot; modules[symbol[:at]] != "" {
			return symbol[:at]
		}
		at++
	}
}

// read builds the binary with its symbols and reads what needs what.
func read(ctx context.Context, dir string, modules map[string]string) (*graph, error) {
	bin := filepath.Join(dir, "sluice")
	cmd := command(ctx, "go", "build", "-trimpath", "-ldflags=-dumpdep", "-o", bin, "./cmd/sluice")
	var deps bytes.Buffer
	cmd.Stderr = &deps
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	g := &graph{numbers: map[string]int{}}
	lines := bufio.NewScanner(&deps)
	lines.Buffer(nil, 1<<20) // texts are symbols too
	for lines.Scan() {
		line := strings.ReplaceAll(lines.Text(), " <UsedInIface>", "")
		if from, to, ok := strings.Cut(line, " -> "); ok {
			a, b := g.number(from, modules), g.number(to, modules)
			g.needs[a] = append(g.needs[a], b)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("what the linker says: %w", err)
	}
	return g, g.measure(ctx, bin, modules)
}

// measure reads the size of each symbol.
func (g *graph) measure(ctx context.Context, bin string, modules map[string]string) error {
	out, err := command(ctx, "go", "tool", "nm", "-size", bin).Output()
	if err != nil {
		return fmt.Errorf("go tool nm: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		// Address, size, kind, name. A name may have spaces.
		f := strings.Fields(line)
		if len(f) < 4 || strings.EqualFold(f[2], "b") {
			continue
		}
		size, err := strconv.ParseFloat(f[1], 64)
		if err != nil || size > 1<<24 { // memory that is in no file
			continue
		}
		if strings.EqualFold(f[2], "t") {
			size *= 1 + perText
		}
		g.sizes[g.number(strings.Join(f[3:], " "), modules)] = size
	}
	return nil
}

// total returns the size of what is needed without the module.
func (g *graph) total(without string) (sum float64) {
	seen := make([]bool, len(g.needs))
	next := []int{g.numbers["_"]} // the linker's name for the start
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		for _, to := range g.needs[n] {
			if !seen[to] && (without == "" || g.modules[to] != without) {
				seen[to] = true
				sum += g.sizes[to]
				next = append(next, to)
			}
		}
	}
	return sum
}

// print prints the modules, the largest first.
func (g *graph) print(out io.Writer, seconds map[string]float64) {
	type row struct {
		name string
		size float64
	}
	var rows []row
	all := g.total("")
	names := slices.Clone(g.modules)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" && name != standard && name != "sluice" {
			rows = append(rows, row{name, all - g.total(name)})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return int(b.size - a.size) })
	fmt.Fprintf(out, "%8s %8s\n", "MB", "CPU s")
	for _, r := range append([]row{{standard, 0}, {"sluice", 0}}, rows...) {
		if r.size >= least || r.name == standard || r.name == "sluice" || seconds[r.name] >= 1 {
			fmt.Fprintf(out, "%8.2f %8.1f  %s\n", r.size/1e6, seconds[r.name], r.name)
		}
	}
}

// times builds with an empty cache and returns the CPU time of each module in seconds.
func times(ctx context.Context, dir string, modules map[string]string) (map[string]float64, error) {
	file := filepath.Join(dir, "actions.json")
	cmd := command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-debug-actiongraph="+file, "-o", filepath.Join(dir, "cold"), "./cmd/sluice")
	cmd.Env = append(cmd.Env, "GOCACHE="+filepath.Join(dir, "cache"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys int64
	}
	if err := json.Unmarshal(text, &actions); err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for _, a := range actions {
		seconds[modules[a.Package]] += float64(a.CmdUser+a.CmdSys) / 1e9
	}
	return seconds, nil
}
