package deploycheck

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit/pgtest"
)

// old is an installation of version 0.1.0: testdata/0.1.0.sh wrote it.
type old struct {
	data            string // its folder, which belongs to the user of the image
	id, key, worker string // an account, its master key and a sub-key
}

// unpackOld returns a copy of the installation whose data folder has a name below a folder.
func unpackOld(t *testing.T, below, name string) *old {
	t.Helper()
	needsRoot(t)
	file, err := os.Open("testdata/0.1.0.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	o := &old{data: filepath.Join(below, name)}
	texts := map[string]*string{"id": &o.id, "key": &o.key, "worker": &o.worker}
	for r := tar.NewReader(packed); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if into := texts[head.Name]; into != nil {
			*into = strings.TrimSpace(string(text))
			continue
		}
		path := filepath.Join(o.data, strings.TrimPrefix(head.Name, "data"))
		if head.FileInfo().IsDir() {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, text, head.FileInfo().Mode())
		}
		if err := errors.Join(err, os.Chown(path, user, user)); err != nil {
			t.Fatal(err)
		}
	}
}

// check wants the accounts, keys and calls of before from a server that has been started on the data, and a new call.
func (o *old) check(t *testing.T, addr string, sluice func(args ...string) (string, error)) {
	t.Helper()
	if out, err := sluice("account", "list"); err != nil || !strings.Contains(out, "ana@example.com") {
		t.Errorf("sluice account list = %v, want ana@example.com\n%s", err, out)
	}
	want := 3
	for _, key := range []string{o.key, o.worker} {
		const body = `{"model":"sandbox/small","messages":[{"role":"user","content":"What is 17 * 23 + 4?"}]}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "395") {
			t.Errorf("a call with a key of before = %d, %s", resp.StatusCode, text)
		}
		want++
	}
	// Calls are settled a moment after they have ended.
	poll(t, "settlement of all calls", func() bool {
		out, err := sluice("usage", o.id, "--json")
		var used struct{ Totals struct{ Requests int } }
		if err := errors.Join(err, json.Unmarshal([]byte(out), &used)); err != nil {
			t.Fatalf("sluice usage = %v\n%s", err, out)
		}
		return used.Totals.Requests == want
	})
	if out, err := sluice("audit"); err != nil {
		t.Errorf("sluice audit = %v\n%s", err, out)
	}
}

// in returns what runs commands in the container of a server.
func (s *server) in(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	return func(args ...string) (string, error) { return s.exec(t, args...) }
}

// TestUpgradeDatabase migrates the data without a server.
func TestUpgradeDatabase(t *testing.T) {
	t.Parallel()
	bin := program(t)
	dir := volume(t)
	o := unpackOld(t, dir, "data")
	for _, step := range []struct{ words, says string }{
		{"upgrade check", "version"},
		{"upgrade database", "The database is now at version "},
		{"upgrade database", "Nothing was changed."},
		{"account list", "ana@example.com"},
	} {
		cmd := as(exec.CommandContext(t.Context(), bin, append(strings.Fields(step.words), "--data", o.data)...))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), step.says) {
			t.Fatalf("sluice %s = %v, want %q\n%s", step.words, err, step.says, out)
		}
	}
	// While a server has the folder, it is left alone.
	addr, _ := serveAs(t, bin, o.data)
	out, err := as(exec.CommandContext(t.Context(), bin, "upgrade", "database", "--data", o.data)).CombinedOutput()
	if err == nil {
		t.Errorf("sluice upgrade database beside a server = %s, want an error", out)
	}
	o.check(t, addr, func(args ...string) (string, error) {
		out, err := as(exec.CommandContext(t.Context(), bin, append(args, "--data", o.data)...)).CombinedOutput()
		return string(out), err
	})
}

// TestUpgradeImage starts the image on a volume of 0.1.0.
func TestUpgradeImage(t *testing.T) {
	t.Parallel()
	image(t)
	o := unpackOld(t, volume(t), "data")
	s := serveIn(t, "sluice-upgrade", "--volume", o.data+":/data")
	o.check(t, s.addr, s.in(t))
}

// podArgs returns the arguments of podman run for a container of the chart: its variables, its configuration, and the
// volumes that the caller names.
func podArgs(t *testing.T, c container, config string, volumes map[string]string) []string {
	t.Helper()
	folder, err := os.MkdirTemp(scratch, "config-")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "sluice.yaml"), []byte(config), 0o644)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--volume", folder + ":" + c.mount(t, "config") + ":ro"}
	for name, dir := range volumes {
		args = append(args, "--volume", dir+":"+c.mount(t, name))
	}
	for _, v := range c.Env {
		if v.Value != "" {
			args = append(args, "--env", v.Name+"="+v.Value)
		}
	}
	if c.WorkingDir != "" {
		args = append(args, "--workdir", c.WorkingDir)
	}
	return args
}

// TestUpgradePod starts a node as the chart does on a volume of 0.1.0, and makes the backup of its CronJob, which shares the
// volume with the node.
func TestUpgradePod(t *testing.T) {
	t.Parallel()
	img := image(t)
	dir, backups := volume(t), volume(t)
	o := unpackOld(t, dir, filepath.Base(node(t).variable("SLUICE_DATA")))
	config := rendered(t, "one", "ConfigMap").Data["sluice.yaml"]
	s := serveIn(t, "sluice-pod", podArgs(t, node(t), config, map[string]string{"data": dir})...)
	o.check(t, s.addr, s.in(t))

	job := rendered(t, "one", "CronJob").Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	args := append(append([]string{"run", "--rm"}, hardened...), podArgs(t, job, config, map[string]string{"data": dir, "backups": backups})...)
	if out, err := podman(t.Context(), append(append(args, img), job.Args...)...).CombinedOutput(); err != nil {
		t.Fatalf("the job = %v\n%s", err, out)
	}
	if made, err := filepath.Glob(filepath.Join(backups, "sluice", "sluice-*Z", "manifest.json")); err != nil || len(made) != 1 {
		t.Errorf("backups = %q, %v, want one", made, err)
	}
}

// TestMigrationsJob runs the hook of the chart as Helm does before an upgrade: on a database without tables, and on one
// that a node uses.
func TestMigrationsJob(t *testing.T) {
	t.Parallel()
	img := image(t)
	database := pgtest.URL(t)
	config := "database: " + database + "\n"
	const secret = "SLUICE_SECRET=0123456789abcdef0123456789abcdef"
	pod := rendered(t, "many", "Job").Spec.Template.Spec
	hook := func(says string) {
		t.Helper()
		scratch := volume(t)
		for _, c := range append(pod.Init, pod.Containers...) {
			args := append(append([]string{"run", "--rm", "--env", secret}, hardened...), podArgs(t, c, config, map[string]string{"scratch": scratch})...)
			out, err := podman(t.Context(), append(append(args, img), c.Args...)...).CombinedOutput()
			if err != nil || c.Args[1] == "database" && !strings.Contains(string(out), says) {
				t.Fatalf("sluice %q = %v, want %q\n%s", c.Args, err, says, out)
			}
		}
	}
	hook("It was at version 0.")
	serveIn(t, "sluice-migrations", "--volume", "/data", "--env", secret, "--env", "SLUICE_DATABASE="+database)
	hook("Nothing was changed.")
}
