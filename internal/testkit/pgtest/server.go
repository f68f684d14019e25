package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/porttest"
)

// settings are used for every server. Its data does not outlive the run, so it need not
// survive a power failure: without fsync a test suite runs several times faster. A killed
// process still loses nothing.
var settings = []string{
	"fsync=off",
	"full_page_writes=off",
	"max_connections=300",
}

// Server is a PostgreSQL server on 127.0.0.1 with its data in one directory. It is not safe
// for concurrent use.
type Server struct {
	programs Programs
	dir      string
	port     *porttest.Port
	settings []string
	// owner is the user who runs the server, or nil if that is us.
	owner *syscall.Credential

	process *os.Process
	// exited is closed when process has ended.
	exited chan struct{}
}

// Own starts a server for this test and stops it when the test ends. It skips the test if
// PostgreSQL is not installed.
func Own(t testing.TB, settings ...string) *Server {
	t.Helper()
	if _, err := Find(); err != nil {
		t.Skipf("needs PostgreSQL: %v", err)
	}
	// t.TempDir does not work here: as root the server runs as another user, which cannot
	// enter that directory.
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := Start(dir, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s.port.Release()
	})
	return s
}

// Start creates a new server in dir, which must exist, and returns when it accepts
// connections. Additional settings have the form name=value. The caller must stop the server
// and remove dir.
func Start(dir string, more ...string) (*Server, error) {
	programs, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: programs, dir: dir, settings: append(settings[:len(settings):len(settings)], more...)}
	// PostgreSQL refuses to run as root.
	if os.Geteuid() == 0 {
		if s.owner, err = ordinaryUser(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, err
		}
	}

	initdb := s.command("initdb", "--pgdata", s.data(), "--username", "sluice", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb in %s: %w\n%s", dir, err, out)
	}

	if s.port, err = porttest.Hold(); err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		s.port.Release()
		return nil, err
	}
	return s, nil
}

// URL returns the address of the database "postgres", with superuser rights.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://sluice@127.0.0.1:%d/postgres?sslmode=disable", s.port.Number)
}

// Stop stops the server. Open connections are closed; committed data is kept. A second Stop
// does nothing.
func (s *Server) Stop() error {
	if s.process == nil {
		return nil
	}
	defer func() { s.process = nil }()
	_ = s.Thaw() // a process that is stopped does not end
	// Fast shutdown, then immediate shutdown, then kill.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := s.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping PostgreSQL, process %d: %w", s.process.Pid, err)
		}
		select {
		case <-s.exited:
			return nil
		case <-time.After(30 * time.Second):
		}
	}
	return fmt.Errorf("PostgreSQL, process %d, does not end", s.process.Pid)
}

// Crash ends the server at once, without a last word to its replica.
func (s *Server) Crash() error {
	if err := s.process.Signal(syscall.SIGQUIT); err != nil {
		return fmt.Errorf("crashing PostgreSQL, process %d: %w", s.process.Pid, err)
	}
	<-s.exited
	s.process = nil
	return nil
}

// Replica starts a standby that follows this server, and stops it when the test ends. A commit of this server is
// confirmed from now on when the standby has it, too. Promote makes the standby a server of its own.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &Server{programs: s.programs, dir: dir, settings: s.settings, owner: s.owner}
	if s.owner != nil {
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=sluice application_name=replica", s.port.Number)
	if out, err := r.command("pg_basebackup", "-d", from, "-D", r.data(), "-X", "stream", "-c", "fast", "-R", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	if r.port, err = porttest.Hold(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.port.Release)
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = 'replica'`, `SELECT pg_reload_conf()`} {
		if err := execute(s.URL(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// Promote makes a replica a server that can be written. It returns when that is so.
func (s *Server) Promote() error { return execute(s.URL(), `SELECT pg_promote()`) }

// Restart stops the server if it is running and starts it on the same port and data.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.run()
}

// Freeze stops all processes of the server without ending them: connections stay open, new ones are accepted by the
// kernel, and nobody answers. Thaw lets them continue, and so does Stop.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw ends what Freeze has begun. It does no harm otherwise.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

// signal sends a signal to the server and to the processes of its connections. On Linux each of these is a process
// group of its own, so they are found by their parent. A connection that is just being accepted would be missed:
// the server itself gets the signal first when it is to stop, and last when it is to continue.
func (s *Server) signal(sig syscall.Signal) error {
	if s.process == nil {
		return errors.New("PostgreSQL does not run")
	}
	first := s.process.Signal(sig)
	// Until the server has really stopped it may start a process that the list below would miss.
	if sig == syscall.SIGSTOP {
		awaitStop(s.process.Pid)
	}
	for _, pid := range children(s.process.Pid) {
		// One that has just ended need not be signaled.
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal process %d of PostgreSQL: %w", pid, err)
		}
	}
	return first
}

// run starts the server process and waits until it accepts connections. On failure the error
// contains the server's log.
func (s *Server) run() error {
	logPath := filepath.Join(s.dir, "server.log")
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor

	args := []string{"-D", s.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port.Number), "-k", s.dir}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	cmd := s.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	// Wait must be called exactly once, so a goroutine does it and everybody else watches the
	// channel.
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	s.process, s.exited = cmd.Process, exited

	if err := s.ready(time.Minute); err != nil {
		s.Stop()
		text, _ := os.ReadFile(logPath)
		return fmt.Errorf("PostgreSQL on port %d: %w\n%s", s.port.Number, err, text)
	}
	return nil
}

// ready waits until the server accepts a connection.
func (s *Server) ready(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return errors.New("the server ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// command prepares one of PostgreSQL's programs. It runs as an ordinary user, in its own
// process group so that Ctrl-C reaches only this process, and without settings from our
// environment.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs.Dir, program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.owner}
	endWithParent(cmd.SysProcAttr)
	return cmd
}

// data returns the data directory.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// ordinaryUser returns the user who runs the server if this process is root.
func ordinaryUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody: run the tests as an ordinary user")
}
