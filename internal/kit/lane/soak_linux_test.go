package lane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Many callers who hang up, wait, read slowly or write slowly leave nothing behind: no connection, no
// watch, no descriptor, no goroutine, no memory. Not parallel, because it counts those of the process.
func TestNothingIsLeft(t *testing.T) {
	c := crowd{hangUps: 300, idle: 200, slow: 10}
	if os.Getenv("SLUICE_SOAK") != "" {
		c = crowd{hangUps: 5000, idle: 10_000, slow: 200}
	}
	before := left(t)
	t.Run("serve", c.run) // the server ends with it
	var after remains
	eventually(t, func() bool {
		after = left(t)
		return after.goroutines <= before.goroutines && after.files <= before.files && after.heap <= before.heap+8<<20
	}, func() string { return fmt.Sprintf("%+v are left, there were %+v", after, before) })
	t.Logf("soak: %d hang-ups, %d idle connections, %d slow readers and writers: %+v before, %+v after", c.hangUps, c.idle, c.slow, before, after)
}

// remains is what a process holds.
type remains struct {
	goroutines, files int
	heap              uint64
}

// left returns what this process holds.
func left(t *testing.T) remains {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools give up what they hold with the second one
	runtime.ReadMemStats(&m)
	return remains{runtime.NumGoroutine(), len(files), m.HeapAlloc}
}

// eventually waits for a condition, and fails the test if it does not come.
func eventually(t *testing.T, happens func() bool, what func() string) {
	t.Helper()
	for deadline := time.Now().Add(3 * patience); !happens(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
	}
}

// crowd is how many callers of each kind there are.
type crowd struct{ hangUps, idle, slow int }

// run serves the crowd, and checks that the server forgets it.
func (c crowd) run(t *testing.T) {
	var running atomic.Int64
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		switch r.URL.Path {
		case "/wait":
			<-r.Context().Done()
		case "/stream":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		case "/long":
			for range 50 {
				_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			}
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}), nil)

	before := left(t)
	idle, release := idleCallers(t, f.addr, c.idle)
	defer func() {
		release()
		eventually(t, func() bool { return f.open() == 0 && f.watch.watched() == 0 && running.Load() == 0 }, func() string {
			return fmt.Sprintf("%d connections, %d watches and %d requests are left, want none", f.open(), f.watch.watched(), running.Load())
		})
	}()
	idle()
	eventually(t, func() bool { return f.open() == c.idle }, func() string { return fmt.Sprintf("%d connections are open, want %d", f.open(), c.idle) })
	t.Logf("soak: an idle connection takes %d bytes of heap", (int64(left(t).heap)-int64(before.heap))/int64(c.idle))

	var callers sync.WaitGroup
	failed := make(chan error, 20+2*c.slow)
	for n := range 20 {
		callers.Go(func() { failed <- callAndHangUp(f.addr, c.hangUps/20, uint64(n)) })
	}
	for range c.slow {
		callers.Go(func() { failed <- readSlowly(f.addr) })
		callers.Go(func() { failed <- writeSlowly(f.addr) })
	}
	callers.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return f.open() <= c.idle && running.Load() == 0 }, func() string {
		return fmt.Sprintf("%d connections and %d requests are left, want %d and none", f.open(), running.Load(), c.idle)
	})
	idle() // they can still be used
}

// idleCallers starts a process that holds connections: two ends of each would be more than this one may
// open. call makes each second of them send a request and read the reply; release closes all.
func idleCallers(t *testing.T, addr string, n int) (call, release func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestIdleCallers$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", idleEnv, addr, n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	call = func() {
		t.Helper()
		_, err := io.WriteString(in, "call\n")
		if line, _ := lines.ReadString('\n'); err != nil || line != "called\n" {
			t.Fatalf("the idle callers say %q, %v", line, err)
		}
	}
	return call, func() {
		_ = in.Close()
		_ = cmd.Wait() // it is told to end
	}
}

// idleEnv has the address and the number of connections, for the process of idleCallers.
const idleEnv = "SLUICE_LANE_IDLE"

// TestIdleCallers is the process of idleCallers. Otherwise it does nothing.
func TestIdleCallers(t *testing.T) {
	addr, count, ok := strings.Cut(os.Getenv(idleEnv), " ")
	if !ok {
		t.Skip("a process of TestNothingIsLeft")
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	open := make([]net.Conn, n)
	for i := range open {
		if open[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for i := 0; i < n; i += 2 { // the others never say anything
			send(t, open[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			receive(t, bufio.NewReaderSize(open[i], 512), "GET")
		}
		fmt.Println("called")
	}
	os.Exit(0) // which closes them
}

// readSlowly takes a long reply in small pieces, so that the server has to wait for the network.
func readSlowly(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := errors.Join(nc.SetDeadline(time.Now().Add(3*patience)), nc.(*net.TCPConn).SetReadBuffer(4<<10)); err != nil {
		return err
	}
	if _, err := io.WriteString(nc, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(nc, 512), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, piece := 0, make([]byte, 700)
	for err == nil {
		var got int
		got, err = resp.Body.Read(piece)
		n += got
		runtime.Gosched()
	}
	if n != 50_000 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("a slow reader got %d bytes, %w; want 50000", n, err)
	}
	return nil
}

// writeSlowly sends requests byte by byte.
func writeSlowly(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		return err
	}
	r := bufio.NewReaderSize(nc, 512)
	for range 3 {
		const request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n01234567890123456789"
		for i := range len(request) {
			if _, err := io.WriteString(nc, request[i:i+1]); err != nil {
				return err
			}
			runtime.Gosched()
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != "01234567890123456789" {
			return fmt.Errorf("a slow writer got %q, %w", body, err)
		}
	}
	return nil
}

// hangUpAt are requests during which callers hang up: before the first byte, in the first line, in the
// head, before, in and after the body, while the handler waits, in a stream, and with more behind.
var hangUpAt = []string{
	"", "G", "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: x\r\n\r",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nslow",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
	"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /wait HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", // in net/http
}

// callAndHangUp makes calls, one after the other, and hangs up in the middle of each.
func callAndHangUp(addr string, times int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	for range times {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		_, err = io.WriteString(nc, hangUpAt[r.IntN(len(hangUpAt))])
		if err == nil && r.IntN(2) == 0 {
			_ = nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = nc.Read(make([]byte, 1+r.IntN(4000))) // a slow reader sees only a part
		}
		if err != nil {
			return fmt.Errorf("sending a request: %w", err)
		}
		if err := nc.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open returns the number of connections.
func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// watched returns the number of connections that are watched.
func (h *hangUps) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}
