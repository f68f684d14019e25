package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/bench/process"
	"sluice/bench/upstream"
)

// TestMain lets this program play every part of the measurement: the upstream and the floor, as the real
// program does, and as much of the gateway's command line as the measurement needs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch args := os.Args[1:]; {
		case roles[args[0]] != nil:
			err = play(args)
		case args[0] == "serve":
			err = serveStub(args)
		case args[0] == "key":
			fmt.Println(`{"key":"service-1"}`)
		case args[0] == "account":
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var baseURL = regexp.MustCompile(`base_url: "(.*)"`)

// serveStub runs a floor that accepts the gateway's arguments.
func serveStub(args []string) error {
	text, err := os.ReadFile(args[2]) // serve --config FILE --data FOLDER --listen ADDRESS
	if err != nil {
		return err
	}
	found := baseURL.FindSubmatch(text)
	if found == nil {
		return errors.New("no upstream in the configuration")
	}
	return play([]string{"floor", args[6], string(found[1]), "service-1"})
}

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("CPU time and memory are read the way Linux shows them")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (plan{bin: self, rounds: 1, streams: 20, open: 2 * time.Second, slice: 20 * time.Millisecond}).run(t.Context(), &out); err != nil {
		t.Fatalf("run = %v\n%s", err, &out)
	}
	// On a busy machine no request may begin and end within so short a slice; then there is no figure.
	number, ratio := ` +-?(\d+\.\d|-)`, ` +-?(\d+\.\d\d|-)`
	for _, want := range []string{
		`(?m)^ +direct +floor +sluice +sluice/floor$`,
		`(?m)^CPU µs per request, c=1 ` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^CPU µs per request, c=256 ` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^CPU µs per chunk, flood ` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^CPU µs per request, TLS +-` + strings.Repeat(number, 2) + ratio + `$`,
		`(?m)^CPU µs per MB, 200 KB prompt` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^CPU µs per MB, 400 KB, agent` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^CPU µs per MB, 5 MB image ` + strings.Repeat(number, 3) + ratio + `$`,
		`(?m)^added µs, median, c=1 +-` + strings.Repeat(number, 2) + ratio + `$`,
		`(?m)^KB per open stream +-` + strings.Repeat(number, 2) + ratio + `$`,
		`(?m)^errors +0\.0 +0\.0 +0\.0 +-$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("run printed no line like %s:\n%s", want, &out)
		}
	}
}

// TestParts runs the real gateway with a little of everything.
func TestParts(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "sluice/cmd/sluice")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var out strings.Builder
	if err := (plan{quick: true, rounds: 1, slice: 20 * time.Millisecond}).grow(t.Context(), self, bin, t.TempDir(), &out); err != nil {
		t.Fatalf("grow = %v\n%s", err, &out)
	}
	for _, want := range []string{"10 accounts", "50 accounts", "5000 accounts", "10 models", "100 models", "0 settlements", "1000 settlements", "1 targets", "16 targets"} {
		if !regexp.MustCompile(`(?m)^` + want + ` +\d+\.\d +(\d+\.\d\d|-)$`).MatchString(out.String()) {
			t.Errorf("grow printed no line for %s:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := (plan{rounds: 1, slice: 20 * time.Millisecond}).doors(t.Context(), self, bin, t.TempDir(), append(doorsOf(), autosOf()[1]), &out); err != nil {
		t.Fatalf("doors = %v\n%s", err, &out)
	}
	for _, want := range []string{"chat completions, c=1", "messages, c=32", "responses, store: false, c=1", "responses, stored, c=32", "service/auto, c=32", "messages, flood", "responses, stored, flood"} {
		if !strings.Contains(out.String(), "\n"+want) {
			t.Errorf("doors printed no line for %s:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := (plan{rounds: 1, slice: 20 * time.Millisecond}).tools(t.Context(), self, bin, t.TempDir(), &out); err != nil {
		t.Fatalf("tools = %v\n%s", err, &out)
	}
	if !regexp.MustCompile(`(?m)^median of the time that a tool adds to two model calls, c=32: -?\d+ µs$`).MatchString(out.String()) {
		t.Errorf("tools printed no time:\n%s", &out)
	}
	t.Run("cluster", func(t *testing.T) {
		var out strings.Builder
		if err := (plan{rounds: 1, slice: 20 * time.Millisecond, open: 20 * time.Millisecond}).cluster(t.Context(), self, bin, t.TempDir(), &out); err != nil {
			t.Fatalf("cluster = %v\n%s", err, &out)
		}
		if strings.Contains(out.String(), errNoServers.Error()) {
			t.Skip("needs PostgreSQL and Redis")
		}
		for _, want := range []string{"c=1", "c=32", "c=256", "idle, CPU ms per second"} {
			if !regexp.MustCompile(`(?m)^` + want + ` +(\d+\.\d|-) +(\d+\.\d|-) +(\d+\.\d\d|-)$`).MatchString(out.String()) {
				t.Errorf("cluster printed no line for %s:\n%s", want, &out)
			}
		}
	})
	const number = ` +(-?\d+(\.\d+)?|-)`
	for part, want := range map[string][]string{
		"open":    {`direct` + strings.Repeat(number, 9), `sluice` + strings.Repeat(number, 8) + ` +0`, `5,000 requests/s .*`},
		"prompts": {`requests per second and core` + strings.Repeat(number, 4) + `.*`, `errors( +0\.0)+ +-`},
		"streams": {`floor` + strings.Repeat(number, 3) + ` +- +\d+` + number + ` +0`, `sluice` + strings.Repeat(number, 3) + ` +\d+ +\d+` + number + ` +0`},
		"memory":  {strings.Repeat(number, 9) + ` +0` + number, `the last line is without a load; [12] looks, of which at most 12 are shown`},
	} {
		t.Run(part, func(t *testing.T) {
			var out strings.Builder
			p := plan{quick: true, rounds: 1, streams: 20, open: 2 * time.Second, slice: 20 * time.Millisecond, long: time.Second, samples: 2}
			if err := parts[part](p, t.Context(), self, bin, t.TempDir(), &out); err != nil {
				t.Fatalf("%s = %v\n%s", part, err, &out)
			}
			// The ledger has what callers got, neither more nor less.
			found := regexp.MustCompile(`(?m)^ledger: (\d+) calls of the gateway, (\d+) settlements in its database$`).FindStringSubmatch(out.String())
			if found == nil || found[1] != found[2] || found[1] == "0" {
				t.Errorf("%s printed no ledger that agrees:\n%s", part, &out)
			}
			for _, want := range want {
				if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(out.String()) {
					t.Errorf("%s printed no line like %s:\n%s", part, want, &out)
				}
			}
		})
	}
}

// If the gateway does not start, the error contains its output.
func TestRunWithoutGateway(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	err := plan{bin: "/bin/sh", rounds: 1}.run(t.Context(), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "sluice ended before") || !strings.Contains(err.Error(), "sh: ") {
		t.Errorf("run of a gateway that ends at once = %v, want an error with what it printed", err)
	}
}

// answer sends one fixed reply to every request of every connection.
func answer(t *testing.T, reply string) *target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := c.Read(make([]byte, 4<<10)); err == nil {
				_, _ = c.Write([]byte(reply)) // the caller will notice
			}
			c.Close()
		}
	}()
	return &target{name: "stub", addr: l.Addr().String(), model: "m"}
}

// Any incomplete reply is an error.
func TestCall(t *testing.T) {
	t.Parallel()
	const stream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	events := func(n int, end string) string {
		body := strings.Repeat("data: {}\n\n", n) + end
		return fmt.Sprintf("%s%x\r\n%s\r\n0\r\n\r\n", stream, len(body), body)
	}
	for _, tt := range []struct {
		name, reply string
		chunks      int
		want        string // piece of the error; empty: none
	}{
		{"plain", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 0, ""},
		{"streamed", events(2+frames, "data: [DONE]\n\n"), 2, ""},
		{"refused", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nwait", 0, "429 Too Many Requests: wait"},
		{"too few chunks", events(1+frames, "data: [DONE]\n\n"), 2, "had 4 chunks"},
		{"too many chunks", events(3+frames, "data: [DONE]\n\n"), 2, "had 6 chunks"},
		{"no end mark", events(2+frames, ""), 2, "end mark: false"},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", 0, "EOF"},
		{"cut stream", stream + "a\r\nda", 2, "EOF"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n{}", 0, "without a length"},
		{"nothing", "", 0, "EOF"},
	} {
		target := answer(t, tt.reply)
		c := newConn(target.addr)
		w := workload{chunks: tt.chunks}
		err := w.call(c, w.request(target), func() {})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: call = %v, want %q", tt.name, err, tt.want)
		}
		c.close()
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	r := newResults([]*target{{name: "direct"}, {name: "floor"}, {name: "sluice"}})
	turn := func(requests, chunks, cpu, each int) *sample {
		s := &sample{requests: requests, chunks: chunks, cpu: time.Duration(cpu) * time.Microsecond, rate: float64(requests)}
		for range requests {
			s.latency = append(s.latency, time.Duration(each)*time.Microsecond)
			s.first = append(s.first, time.Duration(each)*time.Microsecond/2)
		}
		return s
	}
	for _, w := range workloads {
		for _, round := range [][3]*sample{
			{turn(100, 1000, 1000, 10), turn(100, 1000, 2000, 30), turn(50, 500, 2000, 40)},
			{turn(100, 1000, 1000, 20), turn(300, 3000, 4000, 60), turn(150, 1500, 6000, 90)},
		} {
			for i, s := range round {
				r.add(w, r.targets[i], s)
			}
		}
	}
	r.held["floor"], r.held["sluice"] = held{perStream: 50e3}, held{perStream: 60e3}
	for name, figures := range map[string][3]float64{
		"perRequest": {10, 15, 40}, "perChunk": {1, 1.5, 4}, "added": {none, 30, 50}, "first": {none, 15, 25}, "memory": {none, 50, 60}, "rate": {100, 200, 100}, "errors": {0, 0, 0},
	} {
		for i, want := range figures {
			target := r.targets[i].name
			got := map[string]func() float64{
				"perRequest": func() float64 { return r.perRequest(one, target) },
				"perChunk":   func() float64 { return r.perChunk(flood, target) },
				"added":      func() float64 { return r.added(one, target, 0.5, (*sample).ends) },
				"first":      func() float64 { return r.added(paced, target, 0.5, (*sample).firsts) },
				"memory":     func() float64 { return r.memory(target) },
				"rate":       func() float64 { return r.throughput(target) },
				"errors":     func() float64 { return r.errors(target) },
			}[name]()
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s(%s) = %v, want %v", name, target, got, want)
			}
		}
	}
	if err := r.firstError(); err != nil {
		t.Errorf("firstError() = %v, want none", err)
	}
	broken := errors.New("broken")
	r.samples[flood.name]["sluice"][1].errors, r.samples[flood.name]["sluice"][1].err = 3, broken
	if got := r.errors("sluice"); got != 3 {
		t.Errorf("errors(sluice) = %v, want 3", got)
	}
	if err := r.firstError(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "sluice, flood") {
		t.Errorf("firstError() = %v, want where it was broken", err)
	}
}

// The latency of an open loop counts from when a request was due, also of those that are not sent any more.
func TestOpenLoopCountsWaiting(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- upstream.Serve(l) }()
	target, w := &target{name: "stub", addr: l.Addr().String(), model: "m"}, workload{callers: 1, rate: 1}
	const waited = time.Hour
	for _, tooLate := range []bool{false, true} {
		queue := make(chan ticket, 3)
		for i := range cap(queue) {
			queue <- ticket{time.Now().Add(-waited), i > 0} // the first is part of the warm-up
		}
		close(queue)
		var got sample
		var over atomic.Bool
		over.Store(tooLate)
		w.serve(target, w.request(target), queue, &got, &over)
		unsent, sent := 0, 3
		if tooLate {
			unsent, sent = 2, 0
		}
		if len(got.latency) != 2 || got.latency[0] < waited || got.latency[0] > 2*waited || got.unsent != unsent || got.requests != sent || got.err != nil {
			t.Errorf("serve(too late: %t) = %+v, want two latencies of %v and more, %d not sent, %d requests", tooLate, got, waited, unsent, sent)
		}
	}
	if n := target.answered.Load(); n != 3 {
		t.Errorf("%d replies were counted, want 3", n)
	}
	l.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestShownAndSlope(t *testing.T) {
	t.Parallel()
	var rows []row
	for i := range 25 {
		rows = append(rows, row{after: time.Duration(i) * time.Minute, resident: int64(1000 * i)})
	}
	some := shown(rows, 12)
	if len(some) != 12 || some[11].after != 24*time.Minute || len(shown(rows[:3], 12)) != 3 {
		t.Errorf("shown(25 rows, 12) = %d rows up to %v, want 12 up to the last", len(some), some[len(some)-1].after)
	}
	if got, ok := slope(rows); !ok || math.Abs(got-60_000) > 1 {
		t.Errorf("slope = %v, %t, want 60000 bytes per hour", got, ok)
	}
	if _, ok := slope(rows[:1]); ok {
		t.Error("slope of one row = true, want none")
	}
}

// A ledger that has lost a call, or has one too many, is noticed.
func TestLedger(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	folder := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "sluice.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE settlements (id TEXT); INSERT INTO settlements VALUES ('1'), ('2')`); err != nil {
		t.Fatal(err)
	}
	for _, answered := range []int64{1, 2, 3} {
		p, err := process.Start(t.Context(), nil, "true")
		if err != nil {
			t.Fatal(err)
		}
		gateway := &target{Process: p}
		gateway.answered.Store(answered)
		if err := ledger(t.Context(), gateway, folder, &strings.Builder{}); (err == nil) != (answered == 2) {
			t.Errorf("ledger of 2 settlements and %d calls = %v", answered, err)
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i + 1)
	}
	for _, tt := range []struct {
		times []time.Duration
		of    float64
		want  time.Duration
	}{{nil, 0.5, 0}, {times, 0.5, 51}, {times, 0.99, 100}, {times, 1, 100}, {times[:1], 0.99, 1}} {
		if got := share(tt.times, tt.of); got != tt.want {
			t.Errorf("share(%d times, %v) = %d, want %d", len(tt.times), tt.of, got, tt.want)
		}
	}
}
