package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bench/process"
)

// mix is the load of -only memory, about 100 calls a second: what callers really do, the streams that they leave included.
func mix() []mixed {
	doors := doorsOf()
	return []mixed{
		{workload{callers: 8}, 100 * time.Millisecond, 0},
		{workload{callers: 32, chunks: 50, pause: 100 * time.Millisecond}, 100 * time.Millisecond, 0},
		{workload{callers: 4, chunks: 50, pause: 100 * time.Millisecond}, 500 * time.Millisecond, 3},
		{workload{callers: 2, door: doors[1]}, 500 * time.Millisecond, 0},
		{workload{callers: 2, door: doors[3]}, 500 * time.Millisecond, 0},
		{workload{callers: 2, prompt: 400_000}, time.Second, 0},
	}
}

// mixed is one kind of call of the mix. Its callers pause between two calls, and hang up after some chunks if leave is not 0.
type mixed struct {
	workload
	between time.Duration
	leave   int
}

// row is one look at the gateway.
type row struct {
	after                 time.Duration
	resident, own         int64
	heap                  float64
	goroutines, files     int
	stored                int64 // bytes in the data folder
	requests, left, wrong int64
	cpu                   time.Duration
}

// memory watches the memory of the gateway for a long time. Interrupted, it prints what it has seen.
func (p plan) memory(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	metrics, err := process.FreeAddress()
	if err != nil {
		return err
	}
	targets, stop, err := p.startAll(ctx, self, bin, scratch, false, out, "--metrics-listen", metrics)
	defer stop()
	if err != nil {
		return err
	}
	t, data := targets[len(targets)-1], filepath.Join(scratch, "data")
	t.metrics = metrics
	var left, wrong atomic.Int64
	var once sync.Once
	var first error
	fail := func(err error) {
		wrong.Add(1)
		once.Do(func() { first = err })
	}
	loading, end := context.WithTimeout(ctx, p.long)
	defer end()
	var callers sync.WaitGroup
	for _, m := range mix() {
		request := m.request(t)
		for range m.callers {
			callers.Go(func() { m.call(loading, t, request, &left, fail) })
		}
	}
	began := time.Now()
	look := func() (r row, err error) {
		r.after = time.Since(began)
		r.resident, r.own, err = t.Memory()
		if err != nil {
			return row{}, fmt.Errorf("the gateway: %w", err)
		}
		if r.files, err = t.Files(); err != nil {
			return row{}, fmt.Errorf("the gateway: %w", err)
		}
		if r.cpu, err = t.CPU(); err != nil {
			return row{}, fmt.Errorf("the gateway: %w", err)
		}
		r.heap, r.goroutines = t.gauge(ctx, "go_memstats_heap_inuse_bytes"), int(t.gauge(ctx, "go_goroutines"))
		r.stored, err = folderSize(data)
		r.requests, r.left, r.wrong = t.answered.Load(), left.Load(), wrong.Load()
		return r, err
	}
	var rows []row
	for wait(loading, p.long/time.Duration(p.samples)) == nil {
		r, err := look()
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	callers.Wait()
	if ctx.Err() != nil {
		printRows(out, shown(rows, 12))
		return errors.New("interrupted")
	}
	if _, err := t.rest(ctx); err != nil {
		return err
	}
	after, err := look()
	if err != nil {
		return err
	}
	printRows(out, append(shown(rows, 12), after))
	fmt.Fprintf(out, "the last line is without a load; %d looks, of which at most 12 are shown\n", len(rows))
	if perHour, ok := slope(rows[len(rows)/4:]); ok {
		fmt.Fprintf(out, "resident memory after the first quarter: %+.2f MB per hour, by least squares\n", perHour/1e6)
	}
	t.answered.Add(left.Load()) // they are settled, too
	return errors.Join(first, ledger(ctx, t, data, out))
}

// call is one caller of the mix.
func (m mixed) call(ctx context.Context, t *target, request []byte, left *atomic.Int64, fail func(error)) {
	c := newConn(t.addr)
	defer c.close()
	for wait(ctx, m.between) == nil {
		chunks := 0
		err := m.workload.call(c, request, func() {
			if chunks++; chunks == m.leave {
				c.c.Close()
			}
		})
		switch {
		case m.leave > 0 && chunks >= m.leave:
			left.Add(1)
		case err != nil:
			fail(err)
		default:
			t.answered.Add(1)
		}
	}
}

// printRows prints looks at the gateway.
func printRows(out io.Writer, rows []row) {
	fmt.Fprintf(out, "%8s%10s%10s%10s%12s%8s%10s%12s%10s%8s%14s\n", "minute", "RSS MB", "own MB", "heap MB", "goroutines", "files", "data MB", "requests", "hung up", "errors", "CPU µs each")
	var before row
	for _, r := range rows {
		each := micros(r.cpu-before.cpu) / float64(r.requests+r.left-before.requests-before.left)
		fmt.Fprintf(out, "%8.1f%10.1f%10.1f%10.1f%12d%8d%10.1f%12d%10d%8d%s\n", r.after.Minutes(), float64(r.resident)/1e6, float64(r.own)/1e6, r.heap/1e6, r.goroutines, r.files, float64(r.stored)/1e6,
			r.requests, r.left, r.wrong, cell(14, 1, each))
		before = r
	}
}

// shown returns at most n of the rows, evenly spread, the last one included.
func shown(rows []row, n int) (some []row) {
	for i := range min(n, len(rows)) {
		some = append(some, rows[(i+1)*len(rows)/min(n, len(rows))-1])
	}
	return some
}

// slope returns how many bytes of resident memory are added per hour. Two rows at least are needed.
func slope(rows []row) (perHour float64, ok bool) {
	n := float64(len(rows))
	var x, y, xx, xy float64
	for _, r := range rows {
		h, b := r.after.Hours(), float64(r.resident)
		x, y, xx, xy = x+h, y+b, xx+h*h, xy+h*b
	}
	below := n*xx - x*x
	return (n*xy - x*y) / below, len(rows) > 1 && below > 0
}

// folderSize returns how many bytes are in the files of a folder.
func folderSize(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it is gone meanwhile
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
