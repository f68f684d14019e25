package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
)

// Env is the environment variable that holds the URL of the test run's server.
const Env = "SLUICE_TEST_REDIS"

// patience is how long a server may take to start or to stop.
const patience = time.Minute

// Find returns the path of a Redis server program, or of Valkey's, which is used in the same way.
func Find() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-server in PATH (Debian package redis-server)")
}

// URL returns the URL of a server that other tests may be using at the same time, so a test must keep to
// keys that begin with its own Prefix. The server is the one that the environment names, or else one that
// stops when the test ends. URL skips the test if there is none and none can be started.
func URL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(Env); server != "" {
		return server
	}
	return Own(t).URL()
}

// Prefix returns a beginning of keys that no other test uses.
func Prefix() string { return "test-" + strings.ToLower(rand.Text()) + ":" }

// Server is a Redis server on 127.0.0.1 with its data in one directory. It is not safe for concurrent use.
type Server struct {
	program  string
	dir      string
	port     *porttest.Port
	settings []string

	process *os.Process
	exited  chan struct{} // closed when process has ended
}

// Own starts a server for this test and stops it when the test ends. It skips the test if Redis is not
// installed. Settings have the form "name value".
func Own(t testing.TB, settings ...string) *Server {
	t.Helper()
	if _, err := Find(); err != nil {
		t.Skipf("needs redis-server: %v", err)
	}
	s, err := Start(t.TempDir(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.discard(t) })
	return s
}

// OwnTLS starts a server for this test that also accepts TLS. It returns its rediss URL, and the file with the
// certificate of the authority that vouches for it. It skips the test if the server knows no TLS.
func OwnTLS(t testing.TB) (url, authority string) {
	t.Helper()
	dir := t.TempDir()
	if err := writeCertificates(dir); err != nil {
		t.Fatal(err)
	}
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	if _, err := Find(); err != nil {
		t.Skipf("needs redis-server: %v", err)
	}
	s, err := Start(dir, "tls-port "+strconv.Itoa(port.Number), "tls-cert-file "+filepath.Join(dir, "server.pem"),
		"tls-key-file "+filepath.Join(dir, "server.key"), "tls-auth-clients no")
	if err != nil && strings.Contains(err.Error(), "Bad directive") {
		t.Skip("needs redis-server: this one was built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.discard(t) })
	return "rediss://" + port.Addr(), filepath.Join(dir, "authority.pem")
}

// discard stops the server for good.
func (s *Server) discard(t testing.TB) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	s.port.Release()
}

// Start starts a server with its data in dir, which must exist, and returns when it accepts connections.
// Settings have the form "name value". The caller must stop the server.
func Start(dir string, settings ...string) (*Server, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir, settings: settings}
	if s.port, err = porttest.Hold(); err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		s.port.Release()
		return nil, err
	}
	return s, nil
}

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return s.port.Addr() }

// URL returns the address of the server as a URL.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Stop stops the server. It saves the data first if the settings say so ("save 60 1"). A second Stop does
// nothing.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM, syscall.SIGKILL) }

// Kill ends the server at once, and with it the data that it has not saved.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Lose ends the server at once and removes what it has saved before.
func (s *Server) Lose() error {
	if err := s.Kill(); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(s.dir, "dump.rdb"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Signal sends a signal to the server, such as SIGSTOP, after which it answers nothing until SIGCONT.
func (s *Server) Signal(sig os.Signal) error { return s.process.Signal(sig) }

// Restart stops the server if it is running and starts it on the same port and data.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.run()
}

// end sends one signal after the other until the process has ended.
func (s *Server) end(signals ...os.Signal) error {
	if s.process == nil {
		return nil
	}
	defer func() { s.process = nil }()
	for _, sig := range signals {
		if err := s.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping Redis, process %d: %w", s.process.Pid, err)
		}
		select {
		case <-s.exited:
			return nil
		case <-time.After(patience):
		}
	}
	return fmt.Errorf("the Redis server, process %d, does not end", s.process.Pid)
}

// run starts the server process and waits until it answers. On failure the error contains its log.
func (s *Server) run() error {
	logPath := filepath.Join(s.dir, "server.log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor

	// No snapshots while the server runs: a fork in the middle of a test is a pause that it did not ask for.
	args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.Number), "--dir", s.dir, "--daemonize", "no", "--save", ""}
	for _, setting := range s.settings {
		name, value, _ := strings.Cut(setting, " ")
		args = append(args, "--"+name, value)
	}
	cmd := exec.Command(s.program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	// In its own process group, so that Ctrl-C reaches only this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting Redis: %w", err)
	}
	// Wait must be called exactly once, so a goroutine does it and everybody else watches the channel.
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	s.process, s.exited = cmd.Process, exited

	if err := s.ready(); err != nil {
		s.Kill()
		text, _ := os.ReadFile(logPath)
		return fmt.Errorf("starting Redis on port %d: %w\n%s", s.port.Number, err, text)
	}
	return nil
}

// ready waits until the server answers.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Any other server on the port would answer, too.
	want := "process_id:" + strconv.Itoa(s.process.Pid)
	for {
		lines, err := s.info(ctx)
		if slices.Contains(lines, want) {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("the server ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %q, %w", patience, lines, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// info asks over a connection of its own what the server says about itself.
func (s *Server) info(ctx context.Context) (lines []string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("INFO server\r\nQUIT\r\n")); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	return strings.Split(string(text), "\r\n"), err
}
