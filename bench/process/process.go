// Package process runs the programs that are measured and reads how much CPU time and memory
// they use.
//
// A Process is always stopped by its own id and waited for, whatever happens to the
// measurement. CPU time and memory are read from /proc, so measuring needs Linux.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Patience is how long a program may take to start or to stop.
const Patience = 30 * time.Second

// Main runs a measurement until it ends or the process is interrupted, and exits with 1 if it fails. name is the
// program's, for the message.
func Main(name string, run func(ctx context.Context, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Options holds the optional settings of Start. The zero value is the default.
type Options struct {
	// Dir is the program's working directory and home. The default is ours.
	Dir string
	// Output receives what the program prints. By default it is kept in memory; see
	// Process.Output.
	Output io.Writer
	// Env is added to the program's environment.
	Env []string
}

// Process is a running program.
type Process struct {
	cmd   *exec.Cmd
	began time.Time
	// memory is the output. It is written until exited is closed.
	memory bytes.Buffer
	exited chan struct{}
}

// Start starts a program. It passes nothing of our environment but PATH. The program is killed
// when ctx is done; Stop is gentler. opts may be nil.
func Start(ctx context.Context, opts *Options, program string, args ...string) (*Process, error) {
	if opts == nil {
		opts = &Options{}
	}
	p := &Process{exited: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Dir, p.cmd.Env = opts.Dir, append(environment(opts.Dir), opts.Env...)
	p.cmd.Stdout = &p.memory
	if opts.Output != nil {
		p.cmd.Stdout = opts.Output
	}
	p.cmd.Stderr = p.cmd.Stdout
	// A child of the program may keep its output open; do not wait for it forever.
	p.cmd.WaitDelay = Patience
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit status does not matter
	}()
	return p, nil
}

// Began returns when the program was started.
func (p *Process) Began() time.Time { return p.began }

// Exited returns a channel that is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Output waits until the program has ended and returns what it printed.
func (p *Process) Output() string {
	<-p.exited
	return p.memory.String()
}

// Stop terminates the program, kills it if it does not end, and waits for it.
func (p *Process) Stop() {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(sig) // an error means that it has ended already
		select {
		case <-p.exited:
			return
		case <-time.After(Patience):
		}
	}
}

// Signal sends the program a signal. An error would mean that it has ended, which others notice.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// hertz is the number of ticks per second in which Linux reports CPU times.
const hertz = 100

// CPU returns the user and system time of the program and of its running children, in steps of 10 ms.
func (p *Process) CPU() (sum time.Duration, err error) {
	for i, folder := range p.folders() {
		n, err := cpu(folder)
		if err != nil && i == 0 { // a child may have ended meanwhile
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// cpu returns the user and system time of one process.
func cpu(folder string) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses, which may contain anything.
	_, rest, ok := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, errors.New("the process's stat has too few fields")
	}
	var ticks int64
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the process's stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / hertz, nil
}

// Memory returns the resident set of the program and of its children in bytes, and how much of it is its own: heap,
// stacks and data. The rest is pages of the binary, which the kernel can drop and load again. What children share counts
// for each of them.
func (p *Process) Memory() (resident, own int64, err error) {
	for i, folder := range p.folders() {
		r, o, err := memory(folder)
		if err != nil && i == 0 {
			return 0, 0, err
		}
		resident, own = resident+r, own+o
	}
	return resident, own, nil
}

// Files returns how many files and connections the program and its children have open.
func (p *Process) Files() (sum int, err error) {
	for i, folder := range p.folders() {
		entries, err := os.ReadDir(filepath.Join(folder, "fd"))
		if err != nil && i == 0 {
			return 0, err
		}
		sum += len(entries)
	}
	return sum, nil
}

// memory returns what Memory does, of one process.
func memory(folder string) (resident, own int64, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return 0, 0, err
	}
	for field, into := range map[string]*int64{"VmRSS": &resident, "RssAnon": &own} {
		_, line, ok := strings.Cut(string(text), "\n"+field+":")
		if !ok {
			return 0, 0, fmt.Errorf("no %s in the process's status", field)
		}
		kilobytes, err := strconv.ParseInt(strings.Fields(line)[0], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s in the process's status: %w", field, err)
		}
		*into = kilobytes * 1024
	}
	return resident, own, nil
}

// folders returns where the kernel shows the program and, after it, its children and theirs.
func (p *Process) folders() []string {
	list := []string{filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))}
	for i := 0; i < len(list); i++ {
		// Programs start their children from their first thread, or are written in Go and have none.
		text, _ := os.ReadFile(filepath.Join(list[i], "task", filepath.Base(list[i]), "children")) // an error means that it has ended
		for _, id := range strings.Fields(string(text)) {
			list = append(list, filepath.Join("/proc", id))
		}
	}
	return list
}

// environment returns the environment of started programs. The caller's configuration must not
// reach them.
func environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
}

// FreeAddress returns a loopback address that is free at this moment.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
