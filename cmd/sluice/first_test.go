package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/testkit/porttest"
)

// TestFirstMinutes types what README.md and docs/start.md tell a stranger to type, against the program itself. What
// only root can do is done by small programs of the same name below a folder; see newcomer.
func TestFirstMinutes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	t.Run("README", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		n.types(n.blocks("README.md", "Two commands"))
		n.types(n.blocks("README.md", "Call it"))
		if !strings.Contains(n.said, "395") {
			t.Errorf("the call of README.md was answered with %s, want 395", n.said)
		}
		// The server runs, and takes what is pasted over.
		n.types(n.blocks("README.md", "Add a provider"))
		n.await("lab/small among the models", func() bool { return strings.Contains(n.run("sluice models"), "\nlab/small ") })
		if log := n.read("serve.log"); strings.Contains(log, "is not set") {
			t.Errorf("the server refused the pasted configuration: %s", log)
		}
	})
	t.Run("a laptop", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		n.types(n.blocks("docs/start.md", "On a laptop"))
	})
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		n.types(n.blocks("docs/start.md", "On one server"))
		if !strings.Contains(n.said, `"id":"gpt-5-mini"`) {
			t.Errorf("the last command of one server said %s, want the models of its configuration", n.said)
		}
	})
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		n.run("apt install ./sluice_" + buildinfo.Version + "_amd64.deb")
		n.types(n.blocks("docs/start.md", "On three nodes"))
		if !strings.Contains(n.said, "/etc/sluice/sluice.yaml is valid.") {
			t.Errorf("the check of a node said %s, want that its file is valid", n.said)
		}
	})
}

// newcomer is somebody at a new machine: its root folder, a working directory, and what the last commands said.
type newcomer struct {
	t         *testing.T
	root, dir string
	environ   []string
	places    *strings.Replacer
	said      string
}

// Programs that need root or change the machine. apt does what the package does, systemctl what systemd does with the
// unit of deploy/systemd; createuser and createdb have no PostgreSQL.
const (
	aptShim = `[ "$1" = install ] || exit 1
case "$2" in caddy) exit ;; "./sluice_$VERSION_amd64.deb") ;; *) echo "there is no $2" >&2; exit 1 ;; esac
mkdir -p "$ROOT/etc/sluice" "$ROOT/var/lib/sluice" "$ROOT/usr/share/doc/sluice/examples" "$ROOT/usr/lib/systemd/system"
chmod 700 "$ROOT/var/lib/sluice"
cp "$SOURCE"/docs/examples/* "$ROOT/usr/share/doc/sluice/examples"
sluice config init > "$ROOT/etc/sluice/sluice.yaml"
cp "$SOURCE/deploy/systemd/sluice.service" "$ROOT/usr/lib/systemd/system"
systemctl restart sluice
`
	systemctlShim = `[ "$1 $2" = "restart sluice" ] || exit 1
unit="$ROOT/usr/lib/systemd/system/sluice.service"
if [ -f pid ]; then kill "$(cat pid)"; while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.02; done; fi
if [ -f "$ROOT/etc/sluice/environment" ]; then set -a; . "$ROOT/etc/sluice/environment"; set +a; fi
export $(sed -n 's/^Environment=//p' "$unit" | sed "s,=/,=$ROOT/,g")
$(sed -n 's,^ExecStartPre=/usr/bin/,,p' "$unit") >&2
$(sed -n 's,^ExecStart=/usr/bin/,,p' "$unit")
`
	// serve returns when the server is ready: a person opens another terminal. What the server before it said is not it.
	sluiceShim = `[ "$1" = serve ] || exec "$PROGRAM" "$@"
: > serve.log
"$PROGRAM" "$@" > serve.out 2> serve.log & echo $! > pid
until grep -q 'sluice is ready' serve.log; do kill -0 "$(cat pid)" || { cat serve.log >&2; exit 1; }; sleep 0.02; done
cat serve.out
`
	goShim = `[ "$1 $2" = "run ./cmd/sluice" ] || exit 1
shift 2; exec sluice "$@"
`
	makeShim = `cd "$SOURCE" && PATH="$REAL" exec make --dry-run "$@" > /dev/null
`
)

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	program, err := exec.LookPath("sluice")
	if err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	vendor := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(vendor.Close)
	n := &newcomer{t: t, root: filepath.Join(t.TempDir(), "machine"), dir: t.TempDir()}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"apt": aptShim, "systemctl": systemctlShim, "sluice": sluiceShim, "go": goShim, "make": makeShim,
		"createuser": "", "createdb": "", "editor": "[ -w \"$1\" ]\n",
	} {
		text = strings.ReplaceAll(text, "$VERSION_", buildinfo.Version+"_")
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nset -e\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.environ = append(
		os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "REAL="+os.Getenv("PATH"), "PROGRAM="+program, "SOURCE="+source, "ROOT="+n.root, "GORACE="+quickExit,
		"SLUICE_TEST_MACHINE="+n.root, "SLUICE_DISCOVER=false", "SLUICE_METRICS_LISTEN=", // no other vendors, and no second port
		"SLUICE_LISTEN="+port.Addr())
	n.places = strings.NewReplacer("127.0.0.1:8080", port.Addr(), "https://api.example.com/v1", vendor.URL,
		" /etc/", " "+n.root+"/etc/", " /usr/", " "+n.root+"/usr/", " /var/", " "+n.root+"/var/")
	t.Cleanup(func() {
		id, err := strconv.Atoi(strings.TrimSpace(n.read("pid")))
		if err != nil {
			return // nothing was started
		}
		syscall.Kill(id, syscall.SIGTERM) // it may have ended
		n.await("the end of the server", func() bool { return syscall.Kill(id, 0) != nil })
	})
	return n
}

// blocks returns the shell commands of a section, in their order.
func (n *newcomer) blocks(file, section string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		n.t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	body, _, _ = strings.Cut(body, "\n## ")
	var all strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```").FindAllStringSubmatch(body, -1) {
		for line := range strings.Lines(m[2]) {
			all.WriteString(strings.TrimPrefix(line, m[1])) // a block in a list is indented
		}
	}
	if !found || all.Len() == 0 {
		n.t.Fatalf("%s has no commands in %q", file, section)
	}
	return all.String()
}

// types runs commands of the documents in one shell. The key that the first start shows takes the place of "service-…".
func (n *newcomer) types(commands string) {
	n.t.Helper()
	if before, after, found := strings.Cut(commands, "service-…"); found {
		// What comes before may start the server that makes the key.
		line := strings.LastIndexByte(before, '\n') + 1
		if line > 0 {
			n.run(before[:line])
		}
		key := regexp.MustCompile(`service-\w+`).FindString(n.run("sluice key regenerate-master"))
		commands = before[line:] + key + after
	}
	n.run(commands)
}

// run runs commands and returns what they say. They must not fail.
func (n *newcomer) run(commands string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", n.places.Replace(commands))
	cmd.Dir, cmd.Env = n.dir, n.environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("the commands\n%s\nended with %v:\n%s%s", commands, err, out, stderr.String())
	}
	n.said = string(out)
	return n.said
}

// read returns a file of the working directory, or nothing.
func (n *newcomer) read(name string) string {
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// await waits until something holds.
func (n *newcomer) await(what string, holds func() bool) {
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			n.t.Errorf("%s did not come within %v", what, patience)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
