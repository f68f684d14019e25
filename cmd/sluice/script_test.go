package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	// The installation of the machine is looked for below a folder of the test.
	testscript.Main(m, map[string]func(){"sluice": func() { start(os.Getenv("SLUICE_TEST_MACHINE")) }})
}

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

// quickExit removes the second that a program with the race detector waits before it exits.
const quickExit = "atexit_sleep_ms=0"

// TestScript runs the scripts of testdata/script over the whole program. Those whose name begins with
// admin_ run twice: on the data folder itself, and through a server that runs on it.
func TestScript(t *testing.T) {
	t.Parallel()
	const scripts = "../../testdata/script/"
	all, err := filepath.Glob(scripts + "*.txtar")
	if err != nil || len(all) == 0 {
		t.Fatalf("Glob = %v, %v, want scripts", all, err)
	}
	isBoth := func(path string) bool { return strings.HasPrefix(filepath.Base(path), "admin_") }
	both := slices.DeleteFunc(slices.Clone(all), func(path string) bool { return !isBoth(path) })
	t.Run("offline", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params(slices.DeleteFunc(all, isBoth), nil))
	})
	t.Run("offline", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params(both, func(env *testscript.Env) error { return install(env.WorkDir, env.Vars, "data") }))
	})
	t.Run("online", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params(both, serveInBackground))
	})
}

func params(files []string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("USER", "tester")
			env.Setenv("GORACE", quickExit)
			env.Setenv("SLUICE_TEST_MACHINE", filepath.Join(env.WorkDir, "machine"))
			env.Setenv("SLUICE_LISTEN", "127.0.0.1:0")
			env.Setenv("SLUICE_METRICS_LISTEN", "")
			env.Setenv("SLUICE_SHUTDOWN_DELAY", "0s") // no load balancer needs it
			// debug finds handlers that keep what is reused.
			env.Setenv("SLUICE_HTTP1_LANE", cmp.Or(os.Getenv("SLUICE_HTTP1_LANE"), "debug"))
			if setup != nil {
				return setup(env)
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "postgres" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Getenv(pgtest.Env) != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"install":  cmdInstall,
			"ready":    cmdReady,
			"signal":   cmdSignal,
			"request":  cmdRequest,
			"retry":    cmdRetry,
			"logged":   cmdLogged,
			"set":      cmdSet,
			"json":     cmdJSON,
			"jsonkeys": cmdJSONKeys,
			"jsonset":  cmdJSONSet,
			"sqlite":   cmdSQLite,
			"database": cmdDatabase,
		},
	}
}

// serveInBackground starts a server on the script's data folder, and stops it when the script ends.
func serveInBackground(env *testscript.Env) error {
	if err := alltest.Prepare(filepath.Join(env.WorkDir, "data")); err != nil {
		return err
	}
	var log bytes.Buffer
	cmd := exec.Command("sluice", "serve", "--data", "data")
	cmd.Dir, cmd.Env = env.WorkDir, env.Vars
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		err := awaitReady(stderr, &log)
		ready <- err
		_, copyErr := io.Copy(&log, stderr)
		done <- errors.Join(copyErr, cmd.Wait())
	}()
	env.Defer(func() {
		cmd.Process.Signal(syscall.SIGTERM) // an error means that it has already exited
		if err := <-done; err != nil {
			panic(fmt.Sprintf("the server ended with %v:\n%s", err, log.String()))
		}
	})
	return <-ready
}

// install starts a server on a data folder and stops it, so that there is an installation.
func install(dir string, environ []string, data string) error {
	folder := data
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, data)
	}
	if err := alltest.Prepare(folder); err != nil {
		return err
	}
	var log bytes.Buffer
	cmd := exec.Command("sluice", "serve", "--data", data)
	cmd.Dir, cmd.Env = dir, environ
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = awaitReady(stderr, &log)
	cmd.Process.Signal(syscall.SIGTERM) // an error means that it has already exited
	_, copyErr := io.Copy(&log, stderr)
	return errors.Join(err, copyErr, cmd.Wait())
}

// awaitReady reads a server's log until the line that reports that it is ready.
func awaitReady(log io.Reader, seen *bytes.Buffer) error {
	piece := make([]byte, 1024)
	for {
		n, err := log.Read(piece)
		seen.Write(piece[:n])
		if readyURL(seen.String()) != "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the server did not start: %s", seen.String())
		}
	}
}

// readyURL returns the address in a server's log, or an empty string while the server is not ready.
func readyURL(log string) string {
	for line := range strings.Lines(log) {
		var e struct{ Msg, URL string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "sluice is ready" {
			return e.URL
		}
	}
	return ""
}

// cmdExits: exits CODE program [args...]
// The program must end with this exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdInstall: install [FOLDER]
// Makes an installation in the folder, or in data, as the first start of a server does.
func cmdInstall(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: install [FOLDER]")
	}
	environ := os.Environ()
	for _, name := range []string{"PATH", "USER", "SLUICE_LISTEN", "SLUICE_METRICS_LISTEN", "SLUICE_SHUTDOWN_DELAY", "SLUICE_HTTP1_LANE"} {
		environ = append(environ, name+"="+ts.Getenv(name))
	}
	ts.Check(install(ts.MkAbs("."), environ, append(args, "data")[0]))
}

// cmdReady: ready LOG
// The server that was started last in the background, with LOG as its standard error, must get ready; its address
// and process id go into the variables URL and PID.
func cmdReady(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready LOG")
	}
	var url string
	wait(ts, func() (bool, string) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil && !os.IsNotExist(err) {
			ts.Fatalf("%v", err)
		}
		if strings.HasPrefix(string(text), "sluice: ") {
			ts.Fatalf("the server did not start: %s", text)
		}
		url = readyURL(string(text))
		return url != "", string(text)
	})
	ts.Setenv("URL", url)
	running := ts.BackgroundCmds()
	ts.Setenv("PID", strconv.Itoa(running[len(running)-1].Process.Pid))
}

// wait polls until the condition holds.
func wait(ts *testscript.TestScript, holds func() (ok bool, state string)) {
	deadline := time.After(patience)
	for {
		ok, state := holds()
		if ok {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("it did not happen within %v; the last state was:\n%s", patience, state)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cmdSignal: signal NAME PID
// Sends HUP, TERM or KILL to a process that the script started.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
	if neg || len(args) != 2 || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal HUP|TERM|KILL PID")
	}
	for _, cmd := range ts.BackgroundCmds() {
		if strconv.Itoa(cmd.Process.Pid) == args[1] {
			ts.Check(cmd.Process.Signal(signals[args[0]]))
			return
		}
	}
	ts.Fatalf("process %s was not started by this script", args[1])
}

// cmdRequest: request METHOD URL [KEY [FILE]]
// Makes an HTTP request, with the file as its body. Standard output is its status, its headers and its body.
func cmdRequest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 4 {
		ts.Fatalf("usage: request METHOD URL [KEY [FILE]]")
	}
	body := ""
	if len(args) == 4 {
		body = ts.ReadFile(args[3])
	}
	text, err := request(args, body)
	ts.Check(err)
	io.WriteString(ts.Stdout(), text) // into memory
}

func request(args []string, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, args[0], args[1], strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if len(args) > 2 {
		req.Header.Set("Authorization", "Bearer "+args[2])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "status %d\n", resp.StatusCode)
	if err := resp.Header.WriteSubset(&b, map[string]bool{"Date": true}); err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\n%s\n", reply)
	return strings.ReplaceAll(b.String(), "\r\n", "\n"), nil
}

// cmdRetry: retry TEXT METHOD URL [KEY]
// Makes an HTTP request again and again until the reply holds the text; with !, until it does not.
func cmdRetry(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: retry TEXT METHOD URL [KEY]")
	}
	var last string
	wait(ts, func() (bool, string) {
		text, err := request(args[1:], "")
		ts.Check(err)
		last = text
		return strings.Contains(text, args[0]) != neg, text
	})
	io.WriteString(ts.Stdout(), last) // into memory
}

// cmdLogged: logged PATTERN FILE
// A line that matches the regular expression must appear in the file.
func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: logged PATTERN FILE")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	wait(ts, func() (bool, string) {
		text := ts.ReadFile(args[1])
		return pattern.MatchString(text), text
	})
}

// lookup finds a value in the JSON of the last standard output. The path has names and numbers with dots between them;
// "." is all of it.
func lookup(ts *testscript.TestScript, path string) any {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	if path == "." {
		return v
	}
	for step := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			ts.Check(err)
			if i >= len(at) {
				ts.Fatalf("%s: there are only %d", path, len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("%s: nothing is inside %v", path, v)
		}
	}
	return v
}

// cmdJSONKeys: jsonkeys PATH KEY...
// The object at the path of the last standard output must have exactly these keys.
func cmdJSONKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: jsonkeys PATH KEY...")
	}
	object, ok := lookup(ts, args[0]).(map[string]any)
	if !ok {
		ts.Fatalf("%s is no object", args[0])
	}
	got, want := slices.Sorted(maps.Keys(object)), slices.Sorted(slices.Values(args[1:]))
	if !slices.Equal(got, want) {
		ts.Fatalf("%s has the keys %q, want %q", args[0], got, want)
	}
}

// cmdJSONSet: jsonset NAME PATH
// The value at the path of the last standard output goes into a variable.
func cmdJSONSet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: jsonset NAME PATH")
	}
	v, ok := lookup(ts, args[1]).(string)
	if !ok || v == "" {
		ts.Fatalf("%s is no text", args[1])
	}
	ts.Setenv(args[0], v)
}

// cmdSet: set NAME [PATTERN]
// The last standard output, without the end of its line, goes into a variable; with a pattern, what its first group
// matches.
func cmdSet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: set NAME [PATTERN]")
	}
	text := strings.TrimSuffix(ts.ReadFile("stdout"), "\n")
	if len(args) == 2 {
		pattern, err := regexp.Compile("(?m)" + args[1])
		ts.Check(err)
		m := pattern.FindStringSubmatch(text)
		if len(m) < 2 {
			ts.Fatalf("%s matches nothing in %s", args[1], text)
		}
		text = m[1]
	}
	ts.Setenv(args[0], text)
}

// cmdJSON: json PATH VALUE
// The value at the path of the last standard output must be this JSON.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var want any
	ts.Check(json.Unmarshal([]byte(args[1]), &want))
	if got := lookup(ts, args[0]); !reflect.DeepEqual(got, want) {
		ts.Fatalf("%s is %v, want %s", args[0], got, args[1])
	}
}

// cmdSQLite: sqlite FILE STATEMENT
// Changes a database behind the program's back.
func cmdSQLite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sqlite FILE STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0])+"?_pragma=busy_timeout(10000)")
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[1])
	ts.Check(err)
}

// cmdDatabase: database NAME
// Makes an empty PostgreSQL database, which goes when the script ends; its address goes into a variable.
func cmdDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: database NAME")
	}
	url, drop, err := pgtest.Create(os.Getenv(pgtest.Env))
	ts.Check(err)
	ts.Defer(func() { ts.Check(drop()) })
	ts.Setenv(args[0], url)
}
