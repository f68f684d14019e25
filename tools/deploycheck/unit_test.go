package deploycheck

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
)

// unit is a service as deploy/systemd/sluice.service describes it, below a root of its own. systemd itself is not needed.
type unit struct {
	t    *testing.T
	text string
	root string
	env  []string
}

// all returns the values of a line of the unit, with the root and the program of the test in place of the machine's.
func (u *unit) all(key string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(u.text, -1) {
		out = append(out, strings.NewReplacer("/usr/bin/sluice", program(u.t), "=/etc/", "="+u.root+"/etc/", "=/var/", "="+u.root+"/var/").Replace(m[1]))
	}
	return out
}

// command returns a command of the unit, as its user and with its environment.
func (u *unit) command(line string) *exec.Cmd {
	words := strings.Fields(line)
	cmd := as(exec.CommandContext(u.t.Context(), words[0], words[1:]...))
	cmd.Dir, cmd.Env = filepath.Join(u.root, "/var/lib/sluice"), u.env
	return cmd
}

// TestUnitUpgrade starts the service on data of 0.1.0 as the unit says: the check of the configuration, the server, a reload
// and a stop.
func TestUnitUpgrade(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	u := &unit{t: t, text: read(t, "deploy/systemd/sluice.service"), root: volume(t)}
	if err := errors.Join(os.Chmod(u.root, 0o755), os.MkdirAll(filepath.Join(u.root, "var/lib"), 0o755), os.MkdirAll(filepath.Join(u.root, "etc/sluice"), 0o755)); err != nil {
		t.Fatal(err)
	}
	o := unpackOld(t, filepath.Join(u.root, "var/lib"), "sluice")
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	file := filepath.Join(u.root, "etc/sluice/sluice.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("listen: "+port.Addr()+"\nmetrics_listen: \"\"\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	u.env = append([]string{"PATH=/usr/bin:/bin"}, strings.Fields(strings.Join(u.all("Environment"), " "))...)
	for _, line := range u.all("ExecStartPre") {
		if out, err := u.command(line).CombinedOutput(); err != nil {
			t.Fatalf("%s = %v\n%s", line, err, out)
		}
	}
	cmd := u.command(u.all("ExecStart")[0])
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll(t, "readiness", func() bool { return answers("http://"+port.Addr()+"/readyz", http.StatusOK) })
	sluice := func(args ...string) (string, error) {
		out, err := u.command(program(t) + " " + strings.Join(args, " ")).CombinedOutput()
		return string(out), err
	}
	o.check(t, port.Addr(), sluice)

	write("sandbox: false\n")
	reload := strings.Replace(u.all("ExecReload")[0], "$MAINPID", "", 1)
	if err := exec.CommandContext(t.Context(), strings.Fields(reload)[0], append(strings.Fields(reload)[1:], strconv.Itoa(cmd.Process.Pid))...).Run(); err != nil {
		t.Fatalf("%s = %v", reload, err)
	}
	poll(t, "end of the sandbox models after a reload", func() bool {
		out, err := sluice("models")
		return err == nil && !strings.Contains(out, "sandbox/small")
	})

	grace, err := time.ParseDuration(u.all("TimeoutStopSec")[0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the service ended with %v\n%s", err, log.String())
		}
	case <-time.After(grace):
		t.Errorf("the service has not ended after %v", grace)
	}
}
