package deploycheck

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/porttest"
)

// container is what these tests read of a container in the rendered chart.
type container struct {
	Args       []string
	WorkingDir string `yaml:"workingDir"`
	Env        []struct{ Name, Value string }
	Mounts     []struct {
		Name string
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// template is the template of a pod.
type template struct {
	Spec struct {
		Grace      int         `yaml:"terminationGracePeriodSeconds"`
		Init       []container `yaml:"initContainers"`
		Containers []container
	}
}

// manifest is what these tests read of an object: the nodes, a job, or the job of a CronJob.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template    template
		JobTemplate struct {
			Spec struct{ Template template }
		} `yaml:"jobTemplate"`
	}
}

// rendered returns an object of the chart as helm renders it: one node with SQLite ("one") or several ("many").
// tools/manifests writes these files, and checks that they are current.
func rendered(t *testing.T, variant, kind string) (out manifest) {
	t.Helper()
	for doc := range strings.SplitSeq(read(t, "tools/manifests/testdata/"+variant+".yaml"), "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind == kind {
			return m
		}
	}
	t.Fatalf("the chart has no %s", kind)
	return out
}

// node returns the container of a node.
func node(t *testing.T) container {
	t.Helper()
	return rendered(t, "one", "StatefulSet").Spec.Template.Spec.Containers[0]
}

// variable returns an environment variable of a container.
func (c container) variable(name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// mount returns where a container has a volume.
func (c container) mount(t *testing.T, name string) string {
	t.Helper()
	for _, m := range c.Mounts {
		if m.Name == name {
			return m.Path
		}
	}
	t.Fatalf("the container has no volume called %s", name)
	return ""
}

// TestDataFolderOnAVolumeWithAGroup starts the program as the user of the image on the volume of a pod, with the data
// folder of the manifest.
func TestDataFolderOnAVolumeWithAGroup(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	bin, dir := program(t), volume(t)
	data, c := dir, node(t)
	if below, err := filepath.Rel(c.mount(t, "data"), c.variable("SLUICE_DATA")); err == nil && !strings.HasPrefix(below, "..") {
		data = filepath.Join(dir, below)
	}
	for range 2 { // the second time there is something in it
		_, stop := serveAs(t, bin, data)
		stop()
	}
}

// serveAs runs a server as the user of the image until stop is called, or the test ends, and returns its address.
func serveAs(t *testing.T, bin, data string) (addr string, stop func()) {
	t.Helper()
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	cmd := as(exec.CommandContext(t.Context(), bin, "serve", "--data", data, "--listen", port.Addr(), "--metrics-listen", ""))
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the server ended with %v: %s", err, log.String())
		}
	})
	t.Cleanup(stop)
	poll(t, "readiness", func() bool { return answers("http://"+port.Addr()+"/readyz", http.StatusOK) })
	return port.Addr(), stop
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to start programs as another user")
	}
}

// as makes a command run as the user of the image.
func as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}

// TestBackupOfAServiceUser makes a backup as root, into a folder that only root may use, of a server that runs as
// another user: as the unit does, for which everything but its data folder is read-only.
func TestBackupOfAServiceUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	bin := program(t)
	dir, err := os.MkdirTemp(scratch, "service-")
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, user, user); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	addr, _ := serveAs(t, bin, data)
	sluice := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), bin, append(args, "--data", data)...).CombinedOutput()
		return string(out), err
	}
	makeVideo(t, addr, masterKey(t, sluice))

	backups := filepath.Join(dir, "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	checkBackup(t, sluice, filepath.Join(backups, "monday"))
}

// TestBackupByRootOfAStoppedService makes a backup as root while no server runs. The service must be able to use its data
// folder afterwards.
func TestBackupByRootOfAStoppedService(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	bin, dir := program(t), volume(t)
	data := filepath.Join(dir, "sluice")
	_, stop := serveAs(t, bin, data)
	stop()
	for i, cmd := range []*exec.Cmd{
		as(exec.CommandContext(t.Context(), bin, "account", "create", "--email", "ana@example.com", "--data", data)),
		exec.CommandContext(t.Context(), bin, "backup", filepath.Join(t.TempDir(), "b"), "--data", data),
		as(exec.CommandContext(t.Context(), bin, "audit", "--data", data)),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("step %d = %v\n%s", i+1, err, out)
		}
	}
}

// TestBackupJob makes a backup as the CronJob does: in a container that has no server, of the PostgreSQL that servers use.
func TestBackupJob(t *testing.T) {
	t.Parallel()
	img := image(t)
	database := pgtest.URL(t)
	const secret = "SLUICE_SECRET=0123456789abcdef0123456789abcdef"
	s := serveIn(t, "sluice-job-node", "--volume", "/data", "--env", secret, "--env", "SLUICE_DATABASE="+database)
	masterKey(t, func(args ...string) (string, error) { return s.exec(t, args...) })
	c := rendered(t, "many", "CronJob").Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	backups := volume(t)
	args := append([]string{"run", "--rm", "--env", secret, "--env", "SLUICE_DATABASE=" + database, "--workdir", c.WorkingDir, "--volume", backups + ":/backups", "--volume", volume(t) + ":/scratch"}, hardened...)
	for _, v := range c.Env {
		if v.Name != "SLUICE_CONFIG" {
			args = append(args, "--env", v.Name+"="+v.Value)
		}
	}
	if out, err := podman(t.Context(), append(append(args, img), c.Args...)...).CombinedOutput(); err != nil {
		t.Fatalf("the job = %v\n%s", err, out)
	}
	if made, err := filepath.Glob(filepath.Join(backups, "sluice", "sluice-*Z", "manifest.json")); err != nil || len(made) != 1 {
		t.Errorf("backups = %q, %v, want one", made, err)
	}
}

// TestBackupInTheImage makes a backup inside the container, whose root is read-only and has no /tmp.
func TestBackupInTheImage(t *testing.T) {
	t.Parallel()
	s := serveIn(t, "sluice-backup", "--volume", "/data")
	sluice := func(args ...string) (string, error) { return s.exec(t, args...) }
	makeVideo(t, s.addr, masterKey(t, sluice))
	checkBackup(t, sluice, "/data/monday")
	if out, err := sluice("backup", "--keep", "1", "/data/backups"); err != nil {
		t.Errorf("sluice backup --keep = %v\n%s", err, out)
	}
}

// checkBackup makes a backup in a folder, and wants it whole, with the video.
func checkBackup(t *testing.T, sluice func(args ...string) (string, error), to string) {
	t.Helper()
	out, err := sluice("backup", to)
	if err != nil || !strings.Contains(out, "Videos: 1, copied") {
		t.Fatalf("sluice backup = %v, want it made, with one video\n%s", err, out)
	}
	if out, err := sluice("restore", "--check", to); err != nil {
		t.Errorf("sluice restore --check = %v\n%s", err, out)
	}
}

// masterKey returns a new key of the owner.
func masterKey(t *testing.T, sluice func(args ...string) (string, error)) string {
	t.Helper()
	out, err := sluice("key", "regenerate-master", "--json")
	if err != nil {
		t.Fatalf("sluice key regenerate-master = %v\n%s", err, out)
	}
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return made.Key
}

// makeVideo makes a video, so that a backup has a file to copy, and waits for its end.
func makeVideo(t *testing.T, addr, key string) {
	t.Helper()
	job := struct{ ID, Status string }{}
	ask := func(method, path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/v1/video/generations/jobs"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&job); err != nil || resp.StatusCode >= 400 {
			t.Fatalf("%s of a video = %d, %v", method, resp.StatusCode, err)
		}
	}
	ask("POST", "", `{"prompt":"a river","width":480,"height":480,"n_seconds":1}`)
	poll(t, "the video", func() bool {
		ask("GET", "/"+job.ID, "")
		return job.Status == "succeeded"
	})
}

// poll waits until a condition holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for tick := time.NewTicker(100 * time.Millisecond); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("no %s after two minutes", what)
		case <-tick.C:
		}
	}
}

// answers reports whether an address answers with a status.
func answers(address string, status int) bool {
	resp, err := http.Get(address)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == status
}
