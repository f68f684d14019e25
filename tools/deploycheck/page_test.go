package deploycheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
)

// reader types what docs/run/containers.md says, with podman in the place of docker.
type reader struct {
	t    *testing.T
	dir  string   // where they work: it has deploy/ as the repository does
	env  []string // of their shell
	page string
	port string // instead of 8080
	key  string // the last one that they were shown
}

// Programs of the reader. The image is there already, so nothing is built; podman needs limits that it may set here.
const (
	podmanShim = `#!/bin/sh
case "$1" in run) shift; set -- run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" ;; esac
exec podman %s "$@"
`
	dockerShim = `#!/bin/sh
if [ "$1" != compose ]; then exec "$SHIMS/podman-here" "$@"; fi
shift
for word; do shift; [ "$word" = --build ] || set -- "$@" "$word"; done
exec podman-compose --podman-path "$SHIMS/podman-here" "$@"
`
	sudoShim = "#!/bin/sh\nexec \"$@\"\n"
)

func newReader(t *testing.T) *reader {
	t.Helper()
	img := image(t)
	run := func(args ...string) {
		t.Helper()
		if out, err := podman(t.Context(), args...).CombinedOutput(); err != nil {
			t.Fatalf("podman %q = %v\n%s", args, err, out)
		}
	}
	run("tag", img, "localhost/sluice")
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	r := &reader{t: t, dir: t.TempDir(), page: read(t, "docs/run/containers.md"), port: port.Addr()[strings.LastIndex(port.Addr(), ":")+1:]}
	shims := t.TempDir()
	options := podman(t.Context()).Args[1:]
	for name, text := range map[string]string{"podman-here": fmt.Sprintf(podmanShim, strings.Join(options, " ")), "docker": dockerShim, "sudo": sudoShim} {
		if err := os.WriteFile(filepath.Join(shims, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(source, "deploy"), filepath.Join(r.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PATH="+shims+":"+os.Getenv("PATH"), "SHIMS="+shims, "SLUICE_PORT="+r.port)
	// The user of the image reads what is mounted.
	for dir := r.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// types runs the blocks below a heading in one shell, which ends at the first command that fails, and returns what they said.
func (r *reader) types(heading string) string {
	r.t.Helper()
	_, section, found := strings.Cut(r.page, heading+"\n")
	if !found {
		r.t.Fatalf("the page has no heading %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^##+ `).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	var text strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		text.WriteString(block[1])
	}
	if text.Len() == 0 {
		r.t.Fatalf("%q has no commands", heading)
	}
	typed := strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:"+r.port, "service-…", r.key).Replace(text.String())
	cmd := exec.CommandContext(r.t.Context(), "sh", "-eu", "-c", typed)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s = %v\n%s\n%s", heading, err, typed, out)
	}
	if keys := regexp.MustCompile(`service-\w{20,}`).FindAllString(string(out), -1); keys != nil {
		r.key = keys[len(keys)-1]
	}
	return string(out)
}

// leave removes what the reader has started.
func (r *reader) leave(args ...string) {
	r.t.Helper()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if r.t.Failed() {
			out, _ := podman(ctx, "logs", args[len(args)-1]).CombinedOutput()
			r.t.Logf("the container: %s", out)
		}
		_ = podman(ctx, args...).Run() // it may be gone already
	})
}

// TestContainerPage follows the page with one container: the first key and call, a configuration with a secret in a file, and
// an upgrade.
func TestContainerPage(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.leave("rm", "--force", "--time=1", "sluice")
	first, _, _ := strings.Cut(r.page[strings.Index(r.page, "## One container"):], "A first answer")
	_, rest, _ := strings.Cut(r.page, first)
	whole := r.page
	// A person reads the key before going on.
	r.page = first
	if said := r.types("## One container"); !strings.Contains(said, "ready\n") || r.key == "" {
		t.Fatalf("the first commands said %s, want that it is ready, and a key", said)
	}
	r.page = "## One container\n" + rest
	if said := r.types("## One container"); !strings.Contains(said, "395") {
		t.Errorf("the first call said %s, want 395", said)
	}
	r.page = whole
	if said := r.types("### Configuration and secrets"); !strings.Contains(said, "\nlab/small ") {
		t.Errorf("the container has the models\n%s\nwant lab/small of the configuration", said)
	}
	// What the image asks, without a shell.
	if out, err := podman(t.Context(), "healthcheck", "run", "sluice").CombinedOutput(); err != nil {
		t.Errorf("the health check = %v\n%s", err, out)
	}
	if out, err := podman(t.Context(), "logs", "sluice").CombinedOutput(); err != nil || strings.Contains(string(out), "sk-…") {
		t.Errorf("the log = %v, and has the secret\n%s", err, out)
	}
	if said := r.types("### Stopping and upgrading"); !strings.HasSuffix(said, "ready\n") {
		t.Errorf("the upgrade said %s, want that it is ready", said)
	}
}

// TestComposeOne follows the page with one.yaml, on the volume of an installation of 0.1.0.
func TestComposeOne(t *testing.T) {
	t.Parallel()
	needs(t, "podman-compose", "podman-compose")
	r := newReader(t)
	const name, data = "compose_sluice_1", "compose_data"
	r.leave("rm", "--force", "--time=1", name)
	// Its first use gives a volume the owner and the mode of the image's folder.
	if out, err := podman(t.Context(), append(append([]string{"run", "--rm", "--volume", data + ":/data"}, hardened...), image(t), "version")...).CombinedOutput(); err != nil {
		t.Fatalf("podman run = %v\n%s", err, out)
	}
	mounted, err := podman(t.Context(), "volume", "inspect", "--format={{.Mountpoint}}", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	place := strings.TrimSpace(string(mounted))
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	o := unpackOld(t, filepath.Dir(place), filepath.Base(place))
	// Before it ends with "down".
	last := strings.LastIndex(r.page, "docker compose -f deploy/compose/one.yaml down\n")
	down := r.page[last:]
	r.page = r.page[:last] + "```\n"
	if said := r.types("## One node with compose"); !strings.Contains(said, "ready\n") || r.key == "" {
		t.Fatalf("the commands said %s, want that it is ready, and a key", said)
	}
	s := &server{name: name, addr: "127.0.0.1:" + r.port}
	o.check(t, s.addr, s.in(t))
	if out, err := s.exec(t, "config", "check"); err != nil {
		t.Errorf("sluice config check = %v\n%s", err, out)
	}
	r.page = "## Stop\n```sh\n" + down
	r.types("## Stop")
	if out, _ := podman(t.Context(), "ps", "--format={{.Names}}").Output(); strings.Contains(string(out), name) {
		t.Errorf("after down there is still %s", out)
	}
	if _, err := os.Stat(filepath.Join(place, "sluice.db")); err != nil {
		t.Errorf("after down the data is gone: %v", err)
	}
}
