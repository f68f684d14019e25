package deploycheck

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/app/config"
	"sluice/internal/testkit/clustertest"
)

const root = "../.."

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a program, which must succeed, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needs skips a test if a program is not installed.
func needs(t *testing.T, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s (Debian package %s)", program, debian)
	}
}

// environment has a value for every variable that the files take.
var environment = []string{
	"OPENAI_API_KEY=sk-example-key", "SMTP_PASSWORD=example", "POSTGRES_PASSWORD=example", "REDIS_PASSWORD=example",
	"SLUICE_SECRET=0123456789abcdef0123456789abcdef", "AWS_ACCESS_KEY_ID=example", "AWS_SECRET_ACCESS_KEY=example",
}

// TestConfigurations loads every configuration that we publish, and wants no warning.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs/examples/*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("examples = %q, %v, want one for a laptop, a server and a node", files, err)
	}
	// The ConfigMap of the chart holds one as text.
	inside := filepath.Join(t.TempDir(), "configmap.yaml")
	if err := os.WriteFile(inside, []byte(rendered(t, "many", "ConfigMap").Data["sluice.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(root, "deploy/compose/sluice/sluice.yaml"), filepath.Join(root, "deploy/compose/one/sluice.yaml"), inside) {
		c, err := config.Load(config.Source{Path: file, Environ: environment})
		if err != nil {
			t.Errorf("Load(%s) = %v", file, err)
			continue
		}
		if len(c.Warnings()) > 0 {
			t.Errorf("Load(%s) warns %q", file, c.Warnings())
		}
	}
}

// worst is the highest exposure that systemd-analyze may find, of 10. A service without any protection
// has 9.6, and nothing that has the network gets to 0.
const worst = 1.5

func TestUnit(t *testing.T) {
	t.Parallel()
	needs(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	units := []string{"sluice.service", "sluice-backup.service", "sluice-backup.timer"}
	for _, name := range units {
		// verify looks for the program, which is not installed here.
		text := strings.ReplaceAll(read(t, "deploy/systemd/"+name), "/usr/bin/sluice", "/bin/true")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range units {
		unit := filepath.Join(dir, name)
		// It also reads units of this machine, so only what it says about ours counts.
		out, _ := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if strings.Contains(string(out), "sluice") {
			t.Errorf("systemd-analyze verify: %s", out)
		}
	}
	run(t, "systemd-analyze", "security", "--offline=yes", fmt.Sprintf("--threshold=%d", int(worst*10)), filepath.Join(dir, "sluice.service"))
	// A power cut may last longer than any number of starts.
	if text := read(t, "deploy/systemd/sluice.service"); !strings.Contains(text, "\nStartLimitIntervalSec=0\n") || !strings.Contains(text, "\nRestart=on-failure\n") {
		t.Error("systemd gives the service up after some starts, want it to try for ever")
	}
}

// TestUnitByHand makes the user and the folders of the service in a root of its own, as deploy/README.md says. The service
// must be able to read a configuration that root writes.
func TestUnitByHand(t *testing.T) {
	t.Parallel()
	needs(t, "systemd-sysusers", "systemd")
	needs(t, "systemd-tmpfiles", "systemd")
	needsRoot(t)
	other := t.TempDir()
	for name, text := range map[string]string{
		"usr/lib/sysusers.d/sluice.conf": read(t, "deploy/systemd/sluice.sysusers"),
		"usr/lib/tmpfiles.d/sluice.conf": read(t, "deploy/systemd/sluice.tmpfiles"),
		"etc/passwd":                     "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n",
		"etc/sluice/sluice.yaml": "", // copied by root before
	} {
		file := filepath.Join(other, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "systemd-sysusers", "--root="+other, "sluice.conf")
	run(t, "systemd-tmpfiles", "--root="+other, "--create", "sluice.conf")
	passwd, err := os.ReadFile(filepath.Join(other, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^sluice:[^:]*:(\d+):(\d+):`).FindSubmatch(passwd)
	if found == nil {
		t.Fatalf("there is no user sluice: %s", passwd)
	}
	for name, want := range map[string]struct {
		mode  os.FileMode
		owner string
	}{
		"etc/sluice":             {0o750, "0"},
		"etc/sluice/sluice.yaml": {0o640, "0"},
		"var/lib/sluice":         {0o700, string(found[1])},
	} {
		info, err := os.Stat(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if got := info.Mode().Perm(); got != want.mode || fmt.Sprint(st.Uid) != want.owner || fmt.Sprint(st.Gid) != string(found[2]) {
			t.Errorf("%s has mode %v, owner %d and group %d, want %v, %s and %s", name, got, st.Uid, st.Gid, want.mode, want.owner, found[2])
		}
	}
}

// TestUnitFitsTheProgram compares the unit with the defaults that it depends on.
func TestUnitFitsTheProgram(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Source{})
	if err != nil {
		t.Fatal(err)
	}
	const grace = 40
	if c.DrainTimeout.Seconds() >= grace {
		t.Errorf("drain_timeout is %v, want less than the %d seconds that the files below give", c.DrainTimeout, grace)
	}
	for file, line := range map[string]string{
		"deploy/systemd/sluice.service":  "TimeoutStopSec=%d",
		"deploy/helm/sluice/values.yaml": "terminationGracePeriodSeconds: %d",
		"deploy/compose/compose.yaml":    "stop_grace_period: %ds",
		"deploy/compose/one.yaml":        "stop_grace_period: %ds",
	} {
		if want := fmt.Sprintf(line, grace); !strings.Contains(read(t, file), want) {
			t.Errorf("%s has no line %q", file, want)
		}
	}
}

func TestNginx(t *testing.T) {
	t.Parallel()
	nginx, err := clustertest.FindNginx()
	if err != nil {
		t.Skip("needs nginx")
	}
	server := read(t, "deploy/compose/nginx/sluice.conf")
	// A node that was made anew has another address. Debian's nginx does not know the word yet; that of the image does.
	if got := strings.Count(server, ":8080 resolve "); got != 3 || !strings.Contains(server, "\nresolver ") {
		t.Errorf("%d names of nodes are looked up again, want 3 and a resolver", got)
	}
	// -t looks up the names of the nodes, which exist in the network of the containers only.
	server = regexp.MustCompile(`server node\d:8080 resolve`).ReplaceAllString(server, "server 127.0.0.1:8080")
	dir := t.TempDir()
	server = strings.Replace(server, "listen 80;", "listen unix:"+filepath.Join(dir, "socket")+";", 1)
	conf := fmt.Sprintf("pid %s;\nerror_log stderr;\nevents {}\nhttp {\n%s}\n", filepath.Join(dir, "pid"), server)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nginx, "-t", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
}

// TestDockerfile checks what makes the image small and harmless. The command that builds the binary is the one of make
// release; TestImageServes builds and starts the last stage.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "deploy/docker/Dockerfile")
	final := text[strings.LastIndex(text, "\nFROM "):]
	for _, line := range []string{"FROM scratch", "USER 65532:65532", "VOLUME /data", `ENTRYPOINT ["/usr/bin/sluice"]`, `CMD ["serve"]`, `HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/bin/sluice", "ready"]`} {
		if !strings.Contains(final, line+"\n") {
			t.Errorf("the last stage has no line %q", line)
		}
	}
	// Nothing can be run in an image without a shell.
	if strings.Contains(final, "\nRUN ") {
		t.Error("the last stage runs something, but has no shell")
	}
	if want := `CGO_ENABLED=0 go build -trimpath -buildvcs=false -gcflags=sluice/internal/web/...=-l -ldflags="-s -w -buildid= -X sluice/internal/kit/buildinfo.commit=$COMMIT -X sluice/internal/kit/buildinfo.version=$VERSION"`; !strings.Contains(text, want) {
		t.Errorf("the image is not built by %q, as releases are", want)
	}
	// Every variable sets something.
	env := regexp.MustCompile(`SLUICE_\w+=\S+`).FindAllString(final, -1)
	c, err := config.Load(config.Source{Environ: env})
	if err != nil || c.Data != "/data" || c.Listen != "0.0.0.0:8080" || c.MetricsListen != "0.0.0.0:9090" || c.Log.Format != "json" {
		t.Errorf("the variables %q make %+v, %v", env, c, err)
	}
}
