package clustertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
)

// example is the configuration that operators are told to use. The test uses it as it stands, with
// other addresses and without the certificate.
const example = "../../../docs/examples/nginx.conf"

// nginx is a load balancer in front of the nodes.
type nginx struct {
	dir string
	url string
}

// startNginx starts nginx, and stops it when the test ends.
func startNginx(t *testing.T, base string, nodes []*node) *nginx {
	t.Helper()
	program, err := FindNginx()
	if err != nil {
		t.Skipf("needs nginx: %v", err)
	}
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	g := &nginx{dir: filepath.Join(base, "nginx"), url: "http://" + port.Addr()}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	conf := addresses(t, example, string(text), nodes)
	g.write(t, "sluice.conf", without(t, example, conf, map[string]string{`listen 443 ssl;`: "listen " + port.Addr() + ";", `ssl_certificate .*;`: "", `ssl_certificate_key .*;`: ""}))
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // the workers must be able to enter the folder
	}
	// What Debian has in its nginx.conf, on folders of this test.
	g.write(t, "nginx.conf", fmt.Sprintf(`%[1]s
daemon off;
worker_processes 2;
pid %[2]s/nginx.pid;
error_log %[2]s/error.log warn;
events { worker_connections 1000; }
http {
    log_format outcome '$status $upstream_status $upstream_addr $request_method $uri $request_time';
    access_log %[2]s/access.log outcome;
    client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy;
    fastcgi_temp_path %[2]s/fastcgi; uwsgi_temp_path %[2]s/uwsgi; scgi_temp_path %[2]s/scgi;
    include %[2]s/sluice.conf;
}
`, user, g.dir))
	runProxy(t, g.dir, port.Addr(), program, "-p", g.dir, "-c", filepath.Join(g.dir, "nginx.conf"), "-e", filepath.Join(g.dir, "error.log"))
	return g
}

// runProxy starts a load balancer and returns when it listens. It ends with the test.
func runProxy(t *testing.T, dir, address, program string, args ...string) {
	t.Helper()
	output := &text{}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends does not matter
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // an error means that it has already exited
		<-exited
	})
	deadline := time.After(patience)
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
		select {
		case <-exited:
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Fatalf("%s ended: %s\n%s", program, output, log)
		case <-deadline:
			t.Fatalf("%s does not listen after %v", program, patience)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// startHAProxy starts HAProxy with the configuration that operators are told to use, and stops it when the test ends.
// It returns its address.
func startHAProxy(t *testing.T, base string, nodes []*node) string {
	t.Helper()
	const file = "../../../docs/examples/haproxy.cfg"
	program, err := FindHAProxy()
	if err != nil {
		t.Skipf("needs HAProxy: %v", err)
	}
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	conf := without(t, file, addresses(t, file, string(text), nodes), map[string]string{`bind :443 .*`: "bind " + port.Addr(), `maxconn \d+`: "maxconn 1000"})
	dir := filepath.Join(base, "haproxy")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	runProxy(t, dir, port.Addr(), program, "-db", "-f", path)
	return "http://" + port.Addr()
}

// addresses replaces the addresses of the nodes in an example. Everything else stays.
func addresses(t *testing.T, file, text string, nodes []*node) string {
	t.Helper()
	servers := regexp.MustCompile(`\b10\.0\.0\.1\d:8080\b`)
	if found := len(servers.FindAllString(text, -1)); found != len(nodes) {
		t.Fatalf("%s has %d nodes, want %d", file, found, len(nodes))
	}
	i := 0
	return servers.ReplaceAllStringFunc(text, func(string) string {
		i++
		return nodes[i-1].port.Addr()
	})
}

// without replaces lines of an example, such as those about certificates, which the test does not have.
func without(t *testing.T, file, text string, lines map[string]string) string {
	t.Helper()
	for old, repl := range lines {
		place := regexp.MustCompile(`(?m)^\s*` + old)
		if !place.MatchString(text) {
			t.Fatalf("%s has no %s", file, old)
		}
		text = place.ReplaceAllString(text, repl)
	}
	return text
}

func (g *nginx) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// requests returns the lines of the log since the given one, and their number in all.
func (g *nginx) requests(t *testing.T, since int) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")[since:]
}

// refused returns the requests for which nginx had no node: those that it answered itself.
func refused(lines []string) (bad []string) {
	for _, line := range lines {
		status, _, _ := strings.Cut(line, " ")
		if status == "502" || status == "503" || status == "504" {
			bad = append(bad, line)
		}
	}
	return bad
}
