package main

import (
	"bufio"
	"io"
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

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/porttest"
)

// machine is a computer made for one page: a root folder, a home, one terminal, and the programs that need root or
// change a computer, as small scripts that do the same below the root folder.
//
// What is typed is changed in two ways only. Addresses and paths become those of the machine; see places. And what the
// reader fills in is filled in:
//
//   - A prefix with three dots, such as service-… or acct_…, is what was printed last with this prefix. If nobody
//     has printed a key, service-… is the owner's. If nothing was printed, as for the sk-… of a vendor, the dots stay.
//   - A word in capitals of the table named is a prefix with another name: ACCOUNT_ID is acct_…. REQUEST_ID is the id of
//     the last completion.
type machine struct {
	t     *testing.T
	root  string
	dir   string // the working directory at the start, which is the home
	port  *porttest.Port
	shell io.WriteCloser
	lines chan string // what the shell itself says: a line after each piece
	typed int         // pieces
	said  string      // by the last block
	seen  strings.Builder

	bare    bool             // the root folder is a whole Debian; see TestBareMachine
	vendor  *httptest.Server // the vendor at a base_url of api.example.com
	address string           // of the database
}

// named are words of the pages that stand for something printed earlier.
var named = map[string]string{
	"ACCOUNT_ID": "acct_", "KEY_ID": "key_", "TICKET_ID": "mat_", "MESSAGE_ID": "msg_", "PAYMENT_ID": "pay_", "TOKEN_ID": "tok_", "JOB_ID": "job_", "GENERATION_ID": "gen_",
	"REQUEST_ID": "chatcmpl-",
}

// Programs that need root or change the machine. apt does what the package does, systemctl what systemd does with the
// units of deploy/systemd; createuser and createdb have no PostgreSQL.
var shims = map[string]string{
	"apt": `[ "$1" = install ] || exit 1
shift
for what; do case "$what" in
-y) ;;
caddy | certbot | nginx | haproxy | postgresql | redis-server) ;;
./sluice_[0-9]*_amd64.deb)
	mkdir -p "$ROOT/etc/sluice" "$ROOT/var/lib/sluice" "$ROOT/usr/share/doc/sluice/examples" "$ROOT/usr/lib/systemd/system"
	chmod 700 "$ROOT/var/lib/sluice"
	cp "$SOURCE"/docs/examples/* "$ROOT/usr/share/doc/sluice/examples"
	[ -f "$ROOT/etc/sluice/sluice.yaml" ] || sluice config init > "$ROOT/etc/sluice/sluice.yaml"
	cp "$SOURCE"/deploy/systemd/*.service "$ROOT/usr/lib/systemd/system"
	systemctl restart sluice ;;
*) echo "there is no $what" >&2; exit 1 ;;
esac; done
`,
	"systemctl": `[ "$1 $2" != "enable --now" ] || { shift; set -- start "$2"; }
unit="$ROOT/usr/lib/systemd/system/${2%.service}.service"
case "$1" in daemon-reload) exit ;; esac
[ "$2" != sluice-backup.timer ] || exit 0
[ -f "$unit" ] || { echo "there is no unit $2" >&2; exit 5; }
stop() { [ ! -f "$STATE/pid" ] || interrupt; }
run() {
	if [ -f "$ROOT/etc/sluice/environment" ]; then set -a; . "$ROOT/etc/sluice/environment"; set +a; fi
	export $(sed -n 's/^Environment=//p' "$unit" | sed "s,=/,=$ROOT/,g")
	cd "$ROOT/var/lib/sluice"
	$AS $(sed -n 's,^ExecStartPre=/usr/bin/,,p' "$unit") >&2
	$AS $(sed -n 's,^ExecStart=/usr/bin/,,p' "$unit" | sed "s, /, $ROOT/,g")
}
case "$1 ${2%.service}" in
"stop sluice") stop ;;
"start sluice") [ -f "$STATE/pid" ] || run ;;
"restart sluice" | "try-restart sluice") stop; run ;;
"reload sluice") kill -HUP "$(cat "$STATE/pid")" ;;
"status sluice") kill -0 "$(cat "$STATE/pid")" && echo "sluice.service: active (running)" ;;
"start sluice-backup") run ;;
*) echo "systemctl $*: this machine cannot" >&2; exit 1 ;;
esac
`,
	// serve returns when the server is ready: a person opens another terminal. What the server before it said is not it.
	"sluice": `case "$1" in serve) ;; *) exec "$PROGRAM" "$@" ;; esac
: > "$STATE/serve.log"
"$PROGRAM" "$@" > "$STATE/serve.out" 2> "$STATE/serve.log" & echo $! > "$STATE/pid"
until grep -q 'sluice is ready' "$STATE/serve.log"; do kill -0 "$(cat "$STATE/pid")" || { cat "$STATE/serve.log" >&2; exit 1; }; sleep 0.02; done
cat "$STATE/serve.out"
`,
	"go": `case "$1 $2" in
"run ./cmd/sluice") shift 2; exec sluice "$@" ;;
*) echo "go $*: this machine cannot" >&2; exit 1 ;;
esac
`,
	"make": `cd "$SOURCE" && HOME="$REALHOME" PATH="$REALPATH" exec make --dry-run "$@" > /dev/null
`,
	// Everything is the reader's own below the root folder.
	"sudo": `while :; do case "$1" in -u) shift 2 ;; -*) shift ;; *) exec "$@" ;; esac; done
`,
	"journalctl": `cat "$STATE/serve.log"
`,
	"editor": `[ -w "$1" ]
`,
	// interrupt is Ctrl-C in the terminal of the server.
	"interrupt": `kill "$(cat "$STATE/pid")"; while kill -0 "$(cat "$STATE/pid")" 2>/dev/null; do sleep 0.02; done
rm "$STATE/pid"
`,
	"createuser": "", "createdb": "", "systemd-sysusers": "", "systemd-tmpfiles": "", "chown": "",
}

// newMachine starts a machine with a terminal. The folders deploy and docs of the source are in its home.
func newMachine(t *testing.T) *machine {
	t.Helper()
	port, err := porttest.Hold()
	must(t, err)
	t.Cleanup(port.Release)
	// The path of a socket below it must be short.
	root, err := os.MkdirTemp("", "page")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(root)) })
	m := &machine{t: t, root: root, port: port, lines: make(chan string)}
	m.dir = filepath.Join(m.root, "home")
	for _, folder := range []string{"bin", "home", "tmp", "typed", "srv", "mnt", "var/lib", "var/backups", "etc/systemd/system", "etc/sysusers.d", "etc/tmpfiles.d"} {
		must(t, os.MkdirAll(filepath.Join(m.root, folder), 0o755))
	}
	for name, text := range shims {
		must(t, os.WriteFile(filepath.Join(m.root, "bin", name), []byte("#!/bin/sh\nset -e\n"+text), 0o700))
	}
	source, err := filepath.Abs("../..")
	must(t, err)
	for _, folder := range []string{"deploy", "docs/examples"} {
		must(t, os.CopyFS(filepath.Join(m.dir, folder), os.DirFS(filepath.Join(source, folder))))
	}
	m.vendor = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"object":"list","data":[]}`) // into memory
	}))
	t.Cleanup(m.vendor.Close)
	program, err := exec.LookPath("sluice")
	must(t, err)
	cmd := exec.Command("bash", "--norc", "-e")
	cmd.Dir = m.dir
	cmd.Env = []string{
		"PATH=" + filepath.Join(m.root, "bin") + ":" + os.Getenv("PATH"), "REALPATH=" + os.Getenv("PATH"), "REALHOME=" + os.Getenv("HOME"), "HOME=" + m.dir, "USER=reader", "LANG=C.UTF-8", "TMPDIR=" + filepath.Join(m.root, "tmp"),
		"PROGRAM=" + program, "SOURCE=" + source, "ROOT=" + m.root, "STATE=" + m.root, "SLUICE_TEST_MACHINE=" + m.root, "GORACE=" + quickExit,
		"SLUICE_LISTEN=" + m.port.Addr(), "SLUICE_METRICS_LISTEN=", "SLUICE_SHUTDOWN_DELAY=0s", "SLUICE_DISCOVER=false", // nobody else is on the machine
	}
	m.open(cmd)
	return m
}

// open opens the terminal. When the test ends, it waits for every process that was started there: all of them inherit
// the pipe alive.
func (m *machine) open(cmd *exec.Cmd) {
	m.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ended, alive, err := os.Pipe()
	must(m.t, err)
	cmd.ExtraFiles = []*os.File{alive}
	m.shell, err = cmd.StdinPipe()
	must(m.t, err)
	out, err := cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, cmd.Start())
	alive.Close()
	go func() {
		defer close(m.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			m.lines <- s.Text()
		}
	}()
	m.t.Cleanup(func() {
		m.shell.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // what runs in the background
		ended.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadAll(ended); err != nil {
			m.t.Errorf("what the page started did not end: %v", err)
		}
		ended.Close()
		for range m.lines { // until the shell has ended
		}
		cmd.Wait() // it was ended by a signal
	})
}

var (
	folders   = regexp.MustCompile(`(^|[\s"'=:(])/(etc|usr|var|srv|mnt|opt|tmp|backup)\b`)
	vendors   = regexp.MustCompile(`(base_url: "?)https://api\.example\.com`)
	addresses = regexp.MustCompile(`https?://api\.example\.com|http://(127\.0\.0\.1|localhost):8080`)
	database  = regexp.MustCompile(`postgres://[^\s"'/]*\bdb\.example\.com[^\s"']*`)
)

// places returns the text with the addresses and the paths of the machine.
func (m *machine) places(text string) string {
	if m.bare {
		return packages.ReplaceAllString(text, "./sluice_*_amd64.deb")
	}
	text = vendors.ReplaceAllString(text, "${1}"+m.vendor.URL)
	text = addresses.ReplaceAllString(text, "http://"+m.port.Addr())
	text = strings.ReplaceAll(text, "127.0.0.1:8080", m.port.Addr())
	text = database.ReplaceAllStringFunc(text, func(string) string { return m.postgres() })
	return folders.ReplaceAllString(text, "${1}"+m.root+"/$2")
}

// postgres returns the database of db.example.com.
func (m *machine) postgres() string {
	if m.address == "" {
		m.address = pgtest.URL(m.t)
	}
	return m.address
}

var gap = regexp.MustCompile(`\b([a-z]+[_-])…|\b[A-Z]+_ID\b`)

// fill returns the text with what the reader fills in.
func (m *machine) fill(text string) string {
	return gap.ReplaceAllStringFunc(text, func(g string) string {
		if found := m.printed(prefixOf(g)); found != "" {
			return strings.TrimPrefix(found, "chatcmpl-") // a request and its completion have the same id
		}
		return g
	})
}

func prefixOf(gap string) string {
	if prefix, ok := strings.CutSuffix(gap, "…"); ok {
		return prefix
	}
	return named[gap]
}

// printed returns what was printed last with a prefix.
func (m *machine) printed(prefix string) string {
	if prefix == "" {
		return ""
	}
	all := regexp.MustCompile(`\b`+prefix+`[0-9A-Za-z]{16,}\b`).FindAllString(m.seen.String(), -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// types types the text of a block, and keeps what it printed.
func (m *machine) types(text string) {
	m.t.Helper()
	m.said = ""
	for _, piece := range pieces(text) {
		if strings.Contains(piece, "service-…") && m.printed("service-") == "" {
			m.run("sluice key regenerate-master")
		}
		m.said += m.run(m.fill(piece))
	}
}

// pieces divides a block before each command with a gap: what is before it may print what belongs there.
func pieces(text string) []string {
	out := []string{""}
	for line := range strings.Lines(text) {
		last := out[len(out)-1]
		inside := strings.HasSuffix(last, "\\\n") || strings.Contains(last, "<<") || strings.Count(last, "'")%2 == 1
		if last != "" && !inside && gap.MatchString(line) {
			out = append(out, "")
		}
		out[len(out)-1] += line
	}
	return out
}

// run runs commands in the terminal and returns what they printed. They must not fail.
func (m *machine) run(commands string) string {
	m.t.Helper()
	m.typed++
	path := filepath.Join(m.root, "typed", strconv.Itoa(m.typed))
	must(m.t, os.WriteFile(path, []byte(m.places(commands)+"\n"), 0o600))
	inside := path
	if m.bare {
		inside = strings.TrimPrefix(path, m.root)
	}
	_, err := io.WriteString(m.shell, "{ . "+inside+"; } > "+inside+".out 2> "+inside+".err < /dev/null; echo\n")
	ok := err == nil
	if ok {
		select {
		case _, ok = <-m.lines:
		case <-time.After(patience):
			ok = false
		}
	}
	out, _ := os.ReadFile(path + ".out") // nothing, if the terminal was closed before
	if !ok {
		stderr, _ := os.ReadFile(path + ".err")
		m.t.Fatalf("the commands\n\n%s\nfailed on the machine of this page:\n%s%s\nthe server said:\n%s", commands, out, stderr, m.log())
	}
	m.seen.Write(out)
	return string(out)
}

// log returns what the server said.
func (m *machine) log() string {
	path := filepath.Join(m.root, "serve.log")
	if m.bare {
		path = filepath.Join(m.root, "var/tmp/serve.log")
	}
	text, _ := os.ReadFile(path) // nothing, if none was started
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
