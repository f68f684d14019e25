package faulttest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally is how the calls of a fault ended.
type tally struct{ complete, told, refused, cut, lost, twice int }

// figures are the rows of the table in docs/soak.md.
var figures struct {
	mu   sync.Mutex
	rows []string
}

// report logs the figures of a fault, and keeps them for the table. Recovery is how long it took until all was as before.
func report(t *testing.T, fault string, n tally, recovery time.Duration) {
	t.Helper()
	keep(t, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %.1f s |", fault, n.complete, n.told, n.refused, n.cut, n.lost, max(0, n.twice), recovery.Seconds()))
}

// keep logs a row, and keeps it for the table.
func keep(t *testing.T, row string) {
	t.Helper()
	t.Logf("soak: %s", row)
	figures.mu.Lock()
	defer figures.mu.Unlock()
	figures.rows = append(figures.rows, row)
}

// figuresEnv names the page that a run writes its table to.
const figuresEnv = "SLUICE_FAULTS_PAGE"

const (
	figuresBegin = "<!-- faults -->\n"
	figuresEnd   = "<!-- /faults -->"
)

// writeFigures replaces the table of the page, if the environment names one.
func writeFigures() error {
	page := os.Getenv(figuresEnv)
	if page == "" || len(figures.rows) == 0 {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(figuresBegin))
	_, after, ended := bytes.Cut(rest, []byte(figuresEnd))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the figures of faults", page)
	}
	rounds := "the short form"
	if soaking() {
		rounds = "the long form"
	}
	slices.Sort(figures.rows)
	table := fmt.Sprintf("Measured on %s, %s.\n\n| fault | complete | told of a failure | refused | cut | lost | charged twice | calm again after |\n|---|---|---|---|---|---|---|---|\n%s\n",
		time.Now().UTC().Format(time.DateOnly), rounds, strings.Join(figures.rows, "\n"))
	return os.WriteFile(page, slices.Concat(before, []byte(figuresBegin), []byte(table), []byte(figuresEnd), after), 0o644)
}
