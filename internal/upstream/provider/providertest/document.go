package providertest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is the document with the table of what each adapter supports, which stands between two marks. The path is
// relative to an adapter's folder, where its tests run.
const (
	page       = "../../../../docs/providers/fields.md"
	tableBegin = "<!-- supports: written by the suite -->\n"
	tableEnd   = "<!-- end of supports -->\n"
)

// document checks the harness's column of the table: a row for each reply that ends well, and one for everything
// that goes wrong. If Update is set, it writes the column instead.
func (h *Harness) document(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), tableBegin)
	old, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	table := parseTable(old)
	for _, c := range replies {
		table.set(c.name, h.Name, h.cell(c.name))
	}
	// All failures share one row, so that the table stays readable.
	troubled := "yes"
	for _, name := range h.troublesome() {
		if _, no := h.Unsupported[name]; no {
			troubled = "in part"
		}
	}
	table.set(troubleRow, h.Name, troubled)
	got := table.String()
	if h.Update {
		if err := os.WriteFile(page, []byte(head+tableBegin+got+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(old, got); diff != "" {
		t.Errorf("%s does not match the suite; run the test with -update: -page +suite\n%s", page, diff)
	}
}

// troubleRow is the name of the row for everything that goes wrong.
const troubleRow = "refusals, cut and stalled replies, callers who leave"

// cell returns what the table says of a case.
func (h *Harness) cell(name string) string {
	if why, no := h.Unsupported[name]; no {
		return "no: " + why
	}
	return "yes"
}

// troublesome returns the names of the cases that end badly.
func (h *Harness) troublesome() []string {
	var names []string
	for _, c := range abandonments {
		names = append(names, c.name)
	}
	for _, c := range refusals {
		names = append(names, c.name)
	}
	for _, c := range troubles {
		names = append(names, c.name)
	}
	return names
}

// grid is a table of Markdown. Its first row has the names of the columns, and its first column those of the rows.
type grid struct {
	columns []string             // in order
	rows    []string             // in order
	cells   map[[2]string]string // by row and column
}

// parseTable parses a table. It ignores lines that are not part of one.
func parseTable(text string) *grid {
	g := &grid{cells: map[[2]string]string{}}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch {
		case len(cells) < 2 || i == 1: // nothing, or the line below the head
		case i == 0:
			g.columns = cells[1:]
		default:
			for k, cell := range cells[1:] {
				g.set(cells[0], g.columns[k], cell)
			}
		}
	}
	return g
}

// set sets a cell. A row or column that is new is added at the end.
func (g *grid) set(row, column, cell string) {
	if !slices.Contains(g.rows, row) {
		g.rows = append(g.rows, row)
	}
	if !slices.Contains(g.columns, column) {
		g.columns = append(g.columns, column)
	}
	g.cells[[2]string{row, column}] = cell
}

// String returns the table as Markdown.
func (g *grid) String() string {
	var b strings.Builder
	b.WriteString("| | " + strings.Join(g.columns, " | ") + " |\n|---" + strings.Repeat("|---", len(g.columns)) + "|\n")
	for _, row := range g.rows {
		b.WriteString("| " + row)
		for _, column := range g.columns {
			b.WriteString(" | " + g.cells[[2]string{row, column}])
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
