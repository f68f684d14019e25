package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"sluice/bench/history"
	"sluice/bench/process"
	"sluice/internal/account"
)

// size is how much a gateway has to know.
type size struct {
	accounts, models, settlements, targets int
}

// growth holds the sizes that are compared. The first one of each group is the base of its ratios.
type growth struct {
	name  string
	sizes []size
	of    func(size) int // the figure that differs
}

// growths returns the groups, which are small if quick is set.
func growths(quick bool) []growth {
	base := size{accounts: 10, models: 10, targets: 1}
	grown := func(change func(*size)) size {
		s := base
		change(&s)
		return s
	}
	accounts, models, settlements := 1_000_000, 10_000, 10_000_000
	if quick {
		accounts, models, settlements = 5000, 100, 1000
	}
	return []growth{
		{"accounts", []size{base, grown(func(s *size) { s.accounts = accounts / 100 }), grown(func(s *size) { s.accounts = accounts })}, func(s size) int { return s.accounts }},
		{"models", []size{base, grown(func(s *size) { s.models = models })}, func(s size) int { return s.models }},
		{"settlements", []size{base, grown(func(s *size) { s.settlements = settlements })}, func(s size) int { return s.settlements }},
		{"targets", []size{base, grown(func(s *size) { s.targets = 16 })}, func(s size) int { return s.targets }},
	}
}

// callers is how many accounts call in turn, so that not all that a call needs is in the processor's caches.
const callers = 32

// grow measures what a request costs gateways that know more and more. The gateways of a group run at the same time
// and get the load in turns.
func (p plan) grow(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	addr, err := process.FreeAddress()
	if err != nil {
		return err
	}
	up, err := process.Start(ctx, nil, self, "upstream", addr)
	if err != nil {
		return err
	}
	defer up.Stop()
	fmt.Fprintf(out, "%-30s%12s%16s\n", "CPU µs per request, c=32", "sluice", "to the first")
	for i, g := range growths(p.quick) {
		if p.only == "accounts" && g.name != p.only { // the group that takes seconds to fill, not minutes
			continue
		}
		if err := p.growOne(ctx, g, bin, "http://"+addr+"/v1", filepath.Join(scratch, fmt.Sprint("growth", i)), out); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// growOne measures one group.
func (p plan) growOne(ctx context.Context, g growth, bin, baseURL, scratch string, out io.Writer) error {
	// The largest of them take gigabytes, so each group's folder goes with it.
	defer os.RemoveAll(scratch)
	var targets []*target
	defer func() {
		for _, t := range targets {
			t.Stop()
		}
	}()
	for i, s := range g.sizes {
		t, err := startGrown(ctx, s, bin, baseURL, filepath.Join(scratch, fmt.Sprint(i)), out)
		if t != nil && t.Process != nil {
			targets = append(targets, t)
		}
		if err != nil {
			return err
		}
		t.name, t.lag = fmt.Sprint(g.of(s), " ", g.name), p.lag
	}
	// A gateway tidies up soon after its start, and that takes longer the more it knows.
	if err := wait(ctx, 2*p.lag); err != nil {
		return err
	}
	for _, t := range targets {
		if _, err := t.rest(ctx); err != nil {
			return err
		}
	}
	r := newResults(targets)
	for round := range p.rounds {
		for i := range targets {
			t := targets[(i+round)%len(targets)]
			s, err := some.run(ctx, t, p.slice)
			if err != nil {
				return err
			}
			r.add(some, t, s)
		}
	}
	var kept []history.Figure
	for _, t := range targets {
		kept = append(kept, r.ratios(t.name+", to "+targets[0].name, p.rounds, func(one *results) float64 {
			return one.perRequest(some, t.name) / one.perRequest(some, targets[0].name)
		}))
		fmt.Fprint(out, t.name, strings.Repeat(" ", 30-len(t.name)), cell(12, 1, r.perRequest(some, t.name)), cell(16, 2, r.perRequest(some, t.name)/r.perRequest(some, targets[0].name)), "\n")
	}
	return errors.Join(r.firstError(), p.remember("bench/load, "+g.name, kept[1:], out))
}

// startGrown starts a gateway that knows as much as s says, in a folder of its own. It is started twice: the first
// start makes the database, which is then filled.
func startGrown(ctx context.Context, s size, bin, baseURL, folder string, out io.Writer) (*target, error) {
	// Each start has an address of its own: between the two, another program may take the first one.
	start := func() (*target, error) {
		t, err := startGateway(ctx, bin, folder, s.configuration(baseURL), nil)
		if t != nil {
			t.model = "bench/0"
		}
		return t, err
	}
	t, err := start()
	if err != nil {
		return t, err
	}
	// A call, so that there is a settlement to copy.
	if err := t.open(ctx, bin, "unlimited"); err != nil {
		return t, err
	}
	if err := t.probe(ctx); err != nil {
		return t, err
	}
	t.Stop()
	began := time.Now()
	if err := s.fill(ctx, filepath.Join(t.data, "sluice.db")); err != nil {
		return nil, fmt.Errorf("filling the database: %w", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		fmt.Fprintf(out, "  %d accounts and %d settlements written in %v\n", s.accounts, s.settlements, took.Round(time.Second))
	}
	key := t.key
	if t, err = start(); err != nil {
		return t, err
	}
	t.key = key
	for i := range min(callers, s.accounts) {
		t.keys = append(t.keys, rawKey(i*(s.accounts/min(callers, s.accounts))))
	}
	return t, t.probe(ctx)
}

// configuration returns the configuration of a gateway with so many models, of which the first is called, and so
// many targets for it.
func (s size) configuration(baseURL string) string {
	var b strings.Builder
	b.WriteString("providers:\n")
	for i := range s.targets {
		fmt.Fprintf(&b, "  - {name: bench%d, kind: openai, base_url: %q}\n", i, baseURL)
	}
	b.WriteString("models:\n")
	b.WriteString("  - {id: bench/0, plan: free, context_length: 128000, max_output: 16000, targets: [{provider: bench0}")
	for i := 1; i < s.targets; i++ {
		fmt.Fprintf(&b, ", {provider: bench%d}", i)
	}
	b.WriteString("]}\n")
	// In few words: a configuration may have 1 MiB.
	for i := 1; i < s.models; i++ {
		fmt.Fprintf(&b, "  - {id: bench/%d, provider: bench0, plan: free, context_length: 128000, max_output: 16000}\n", i)
	}
	return b.String()
}

// rawKey returns the key of an account that fill adds. Its last six characters are a checksum in base 62.
func rawKey(i int) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	key := fmt.Appendf(nil, "service-%040d", i)
	sum := crc32.ChecksumIEEE(key)
	var digits [6]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = alphabet[sum%62]
		sum /= 62
	}
	return string(append(key, digits[:]...))
}

// fill writes accounts without limits, each with a key, and copies of the one settlement, into the database of a
// gateway that is not running.
func (s size) fill(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := s.fillAccounts(ctx, db); err != nil {
		return err
	}
	if s.settlements == 0 {
		return nil
	}
	columns, err := columnsOf(ctx, db, "settlements")
	if err != nil {
		return err
	}
	others := strings.Join(columns, ", ")
	const step = 100_000
	for from := 0; from < s.settlements; from += step {
		// Their ids and times differ; the last ones are of now.
		_, err := db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO settlements (id, at, %s)
			WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT printf('%%032x', i), %d + i * 200, %s FROM n, (SELECT * FROM settlements WHERE id NOT LIKE '00000%%' LIMIT 1)`,
			others, from, min(from+step, s.settlements)-1, time.Now().UnixMilli()-int64(s.settlements)*200, others))
		if err != nil {
			return err
		}
	}
	return nil
}

// fillAccounts adds the accounts and their keys.
func (s size) fillAccounts(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	one, err := tx.PrepareContext(ctx, `INSERT INTO accounts (id, email, plan, plan_granted, staff, rpm_override, concurrent_override, tpm_override, created_at, version) VALUES (?, ?, 'premium', 1, 0, -1, -1, -1, 1, 1)`)
	if err != nil {
		return err
	}
	key, err := tx.PrepareContext(ctx, `INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) VALUES (?, ?, 1, '', ?, ?, 1)`)
	if err != nil {
		return err
	}
	for i := range s.accounts {
		id, raw := fmt.Sprintf("acct_%024d", i), rawKey(i)
		hash := account.HashKey(raw)
		if _, err := one.ExecContext(ctx, id, fmt.Sprintf("user-%d@example.com", i)); err != nil {
			return err
		}
		if _, err := key.ExecContext(ctx, fmt.Sprintf("key_%024d", i), id, hash[:], raw[len(raw)-4:]); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// columnsOf returns the columns of a table, except for id and at.
func columnsOf(ctx context.Context, db *sql.DB, table string) (columns []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info(?) WHERE name NOT IN ('id', 'at')`, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		columns = append(columns, name)
	}
	return columns, rows.Err()
}
