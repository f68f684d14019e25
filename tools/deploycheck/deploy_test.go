package deploycheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/internal/clustertest"
	"sluice/internal/config"
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
	// The ConfigMap holds one as text.
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(read(t, "deploy/kubernetes/config.yaml")), &configMap); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(t.TempDir(), "configmap.yaml")
	if err := os.WriteFile(inside, []byte(configMap.Data["sluice.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(root, "deploy/compose/sluice.yaml"), inside) {
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
	unit := filepath.Join(t.TempDir(), "sluice.service")
	// verify looks for the program, which is not installed here. It also reads units of this machine, so
	// only what it says about ours counts.
	text := strings.ReplaceAll(read(t, "deploy/systemd/sluice.service"), "/usr/bin/sluice", "/bin/true")
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if strings.Contains(string(out), "sluice.service") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	run(t, "systemd-analyze", "security", "--offline=yes", fmt.Sprintf("--threshold=%d", int(worst*10)), unit)
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
		"deploy/systemd/sluice.service":      "TimeoutStopSec=%d",
		"deploy/kubernetes/statefulset.yaml": "terminationGracePeriodSeconds: %d",
		"deploy/compose/compose.yaml":        "stop_grace_period: %ds",
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
	// -t looks up the names of the nodes, which exist in the network of the containers only.
	server := regexp.MustCompile(`server node\d:`).ReplaceAllString(read(t, "deploy/compose/nginx.conf"), "server 127.0.0.1:")
	dir := t.TempDir()
	server = strings.Replace(server, "listen 80;", "listen unix:"+filepath.Join(dir, "socket")+";", 1)
	conf := fmt.Sprintf("pid %s;\nerror_log stderr;\nevents {}\nhttp {\n%s}\n", filepath.Join(dir, "pid"), server)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nginx, "-t", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
}

// TestDockerfile checks what makes the image small and harmless. No container engine builds it here; the
// command that builds the binary is the one of make release.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "deploy/docker/Dockerfile")
	final := text[strings.LastIndex(text, "\nFROM "):]
	for _, line := range []string{"FROM scratch", "USER 65532:65532", "VOLUME /data", `ENTRYPOINT ["/usr/bin/sluice"]`, `CMD ["serve"]`} {
		if !strings.Contains(final, line+"\n") {
			t.Errorf("the last stage has no line %q", line)
		}
	}
	// Nothing can be run in an image without a shell.
	if strings.Contains(final, "\nRUN ") {
		t.Error("the last stage runs something, but has no shell")
	}
	if want := "CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -buildid='"; !strings.Contains(text, want) {
		t.Errorf("the image is not built by %q, as releases are", want)
	}
	// Every variable sets something.
	env := regexp.MustCompile(`SLUICE_\w+=\S+`).FindAllString(final, -1)
	c, err := config.Load(config.Source{Environ: env})
	if err != nil || c.Data != "/data" || c.Listen != "0.0.0.0:8080" || c.MetricsListen != "0.0.0.0:9090" || c.Log.Format != "json" {
		t.Errorf("the variables %q make %+v, %v", env, c, err)
	}
}
