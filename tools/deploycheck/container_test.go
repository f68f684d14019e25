package deploycheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sluice/internal/testkit/porttest"
)

// scratch is the folder of the tests that outlives each of them, deleted by TestMain.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "sluice-deploycheck-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Chmod(scratch, 0o755) // the tests start programs as other users
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// built compiles the program as the image has it, once.
var built = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(scratch, "sluice")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-C", root, "-trimpath", "-buildvcs=false", "-gcflags=sluice/internal/web/...=-l", "-ldflags=-s -w", "-o", bin, "./cmd/sluice")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, os.Chmod(bin, 0o755)
})

// program returns the path of the compiled program.
func program(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// user is the user of the image, of Kubernetes and of compose.
const user = 65532

// podman returns a command of podman, with images and containers of our own. runc and cgroupfs work on machines
// without systemd, too.
func podman(ctx context.Context, args ...string) *exec.Cmd {
	store := filepath.Join(scratch, "podman")
	args = append([]string{"--root", store, "--runroot", store + "-run", "--network-config-dir", store + "-networks", "--storage-driver=vfs", "--runtime=/usr/sbin/runc", "--cgroup-manager=cgroupfs"}, args...)
	return exec.CommandContext(ctx, "podman", args...)
}

// imaged builds the last stage of the Dockerfile, once. The stages before it need a registry; they compile the program,
// which the tests have done already.
var imaged = sync.OnceValues(func() (string, error) {
	bin, err := built()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/docker/Dockerfile"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, "image")
	for _, folder := range []string{"out/data", "etc/ssl/certs"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return "", err
		}
	}
	final := strings.ReplaceAll(string(text[bytes.LastIndex(text, []byte("\nFROM ")):]), "--from=build ", "")
	for name, text := range map[string]string{"Dockerfile": final, "etc/ssl/certs/ca-certificates.crt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "out/data"), 0o700); err != nil {
		return "", err
	}
	if err := os.Link(bin, filepath.Join(dir, "out/sluice")); err != nil {
		return "", err
	}
	const name = "localhost/sluice-deploycheck"
	if out, err := podman(context.Background(), "build", "--format=docker", "--network=none", "-t", name, dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})

// image returns the name of the image.
func image(t *testing.T) string {
	t.Helper()
	needs(t, "podman", "podman")
	needsRoot(t)
	name, err := imaged()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// hardened are the options of a container as compose and Kubernetes run it.
var hardened = []string{"--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"}

// server is a Sluice in a container.
type server struct {
	name string // of the container
	addr string
}

// serveIn starts the image and waits until it serves. args are those of podman run.
func serveIn(t *testing.T, name string, args ...string) *server {
	t.Helper()
	img := image(t)
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	s := &server{name: name, addr: port.Addr()}
	args = append(append([]string{"run", "--detach", "--name", name, "-e", "SLUICE_LISTEN=" + s.addr, "-e", "SLUICE_METRICS_LISTEN=127.0.0.1:0"}, hardened...), args...)
	if out, err := podman(t.Context(), append(args, img)...).CombinedOutput(); err != nil {
		t.Fatalf("podman run: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			out, _ := podman(ctx, "logs", name).CombinedOutput()
			t.Logf("the container: %s", out)
		}
		_ = podman(ctx, "rm", "--force", "--volumes", "--time=1", name).Run() // the next run would say what is wrong
	})
	poll(t, "readiness", func() bool {
		if out, _ := podman(t.Context(), "inspect", "--format={{.State.Running}}", name).Output(); strings.TrimSpace(string(out)) == "false" {
			t.Fatal("the container ended")
		}
		return answers("http://"+s.addr+"/readyz", http.StatusOK)
	})
	return s
}

// exec runs a command of Sluice inside the container.
func (s *server) exec(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := podman(t.Context(), append([]string{"exec", s.name, "sluice"}, args...)...).CombinedOutput()
	return string(out), err
}

// volume returns a folder as a volume of Kubernetes with fsGroup is: it belongs to root and to the group of the pod.
func volume(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "volume-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 0, user); err != nil {
		t.Fatal(err)
	}
	// chmod after chown, which takes the bit away.
	if err := os.Chmod(dir, 0o775|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImageServes starts the image as docker run does, with a volume of its own.
func TestImageServes(t *testing.T) {
	t.Parallel()
	s := serveIn(t, "sluice-serves", "--volume", "/data")
	// What the health check of compose asks.
	if out, err := s.exec(t, "ready"); err != nil || !strings.HasPrefix(out, "ready\n") {
		t.Errorf("sluice ready in the container = %v\n%s", err, out)
	}
}

// TestComposeNetworks puts containers into the networks of the compose file, nginx last, as when the others start faster.
// It must get an address, and one that the nodes trust. The networks are made inside a network namespace of the test, where
// those of the machine, and those of a test that was killed, have no address that is wanted here.
func TestComposeNetworks(t *testing.T) {
	t.Parallel()
	img := image(t)
	// It ends when its input does, however the test ends.
	holder := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "--net", "sh", "-c", "echo; exec cat")
	input, inErr := holder.StdinPipe()
	output, outErr := holder.StdoutPipe()
	if err := errors.Join(inErr, outErr, holder.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(input.Close(), holder.Wait()) })
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Skipf("needs the right to make a network namespace: %v", err)
	}
	podman := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := podman(ctx, args...)
		return exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", holder.Process.Pid)}, cmd.Args...)...)
	}
	var file struct {
		Services map[string]struct{ Networks yaml.MapSlice }
		Networks map[string]struct {
			Ipam struct{ Config []struct{ Subnet string } }
		}
	}
	text := read(t, "deploy/compose/compose.yaml")
	// A list of names is the same as a map of them without values.
	text = regexp.MustCompile(`(?m)^(\s+networks:) \[(.*)\]$`).ReplaceAllString(text, "$1 {$2}")
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var conf struct {
		Proxies []netip.Prefix `yaml:"trusted_proxies"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/compose/sluice/sluice.yaml")), &conf); err != nil {
		t.Fatal(err)
	}
	trusted := false
	for network, n := range file.Networks {
		create := []string{"network", "create"}
		for _, pool := range n.Ipam.Config {
			create = append(create, "--subnet", pool.Subnet)
		}
		// Addresses are given out by name of the network, on a list that outlives a killed test.
		inside := fmt.Sprintf("sluice-deploycheck-%d-%s", os.Getpid(), network)
		if out, err := podman(t.Context(), append(create, inside)...).CombinedOutput(); err != nil {
			t.Fatalf("podman network create: %v\n%s", err, out)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = podman(ctx, "network", "rm", "--force", "--time=1", inside).Run() // with its containers
		})
		for _, service := range append(slices.DeleteFunc(slices.Sorted(maps.Keys(file.Services)), func(s string) bool { return s == "nginx" }), "nginx") {
			at := slices.IndexFunc(file.Services[service].Networks, func(m yaml.MapItem) bool { return m.Key == network })
			if at < 0 {
				continue
			}
			args := []string{"run", "--detach", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--network", inside, "--name", inside + "-" + service}
			if fixed, ok := file.Services[service].Networks[at].Value.(map[string]any); ok && fixed["ipv4_address"] != nil {
				args = append(args, "--ip", fmt.Sprint(fixed["ipv4_address"]))
			}
			if out, err := podman(t.Context(), append(args, img)...).CombinedOutput(); err != nil {
				t.Fatalf("%s does not start in the network %s: %v\n%s", service, network, err, out)
			}
			if service != "nginx" {
				continue
			}
			out, err := podman(t.Context(), "inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", inside+"-nginx").Output()
			addr, parseErr := netip.ParseAddr(strings.TrimSpace(string(out)))
			if err != nil || parseErr != nil {
				t.Fatalf("the address of nginx: %v, %v", err, parseErr)
			}
			trusted = trusted || slices.ContainsFunc(conf.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
		}
	}
	if !trusted {
		t.Errorf("the nodes trust %v, where nginx is not", conf.Proxies)
	}
}

// TestImageOnAVolumeWithAGroup starts the image on the volume of a pod, with the variables of the manifest.
func TestImageOnAVolumeWithAGroup(t *testing.T) {
	t.Parallel()
	image(t) // skips, if it must, before a folder changes its owner
	c := node(t)
	args := []string{"--volume", volume(t) + ":" + c.mount(t, "data")}
	if data := c.variable("SLUICE_DATA"); data != "" {
		args = append(args, "--env", "SLUICE_DATA="+data)
	}
	s := serveIn(t, "sluice-volume", args...)
	if out, err := s.exec(t, "account", "list"); err != nil {
		t.Errorf("sluice account list in the container = %v\n%s", err, out)
	}
}
