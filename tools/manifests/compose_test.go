package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// TestCompose loads the file as docker compose does: schema, variables, extensions, references between
// services, networks and volumes.
func TestCompose(t *testing.T) {
	t.Parallel()
	file := filepath.Join("../../deploy/compose", "compose.yaml")
	env := []string{"SLUICE_SECRET=a", "POSTGRES_PASSWORD=b", "OPENAI_API_KEY=d", "MINIO_PASSWORD=c"}
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(env), cli.WithName("sluice"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	volumes := map[string]bool{}
	for i := range 3 {
		s, err := p.GetService(fmt.Sprintf("node%d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.User == "root" || s.Privileged {
			t.Errorf("%s is not read-only, or may do more than it needs", s.Name)
		}
		// The image has one. podman-compose would give it to a shell, which the image does not have.
		if s.HealthCheck != nil {
			t.Errorf("%s has a health check beside that of the image", s.Name)
		}
		for _, v := range s.Volumes {
			if v.Target == "/data" {
				volumes[v.Source] = true
			}
		}
		if len(s.Ports) > 0 {
			t.Errorf("%s is reachable without nginx", s.Name)
		}
	}
	if len(volumes) != 3 {
		t.Errorf("the nodes have the data volumes %v, want one each", volumes)
	}
	for _, port := range p.Services["nginx"].Ports {
		if port.HostIP != "127.0.0.1" {
			t.Errorf("nginx listens on %s, want this machine only: it has no TLS", port.HostIP)
		}
	}
	trust(t, p)
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			// An editor replaces a file, and the container would go on with the old one.
			if info, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && (err != nil || !info.IsDir()) {
				t.Errorf("%s mounts %s, want a folder", name, v.Source)
			}
		}
	}
	// Without a password nothing must start.
	options, err = cli.NewProjectOptions([]string{file}, cli.WithEnv(env[:3]), cli.WithName("sluice"))
	if err == nil {
		_, err = options.LoadProject(t.Context())
	}
	if err == nil {
		t.Error("the file loads without MINIO_PASSWORD, want an error")
	}
}

// TestComposeOne loads the file of one node.
func TestComposeOne(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{"../../deploy/compose/one.yaml"}, cli.WithEnv([]string{"OPENAI_API_KEY=d"}), cli.WithName("sluice"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := p.Services["sluice"]
	if key := s.Environment["OPENAI_API_KEY"]; key == nil || *key != "d" {
		t.Error("the key of the shell does not reach the container")
	}
	if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.HealthCheck != nil || len(s.Ports) != 1 || s.Ports[0].HostIP != "127.0.0.1" || s.Ports[0].Published != "8080" {
		t.Errorf("the container may do more than it needs, or listens elsewhere: %+v", s)
	}
}

// trust checks that the nodes believe nginx what it says of callers, and nobody else. A fixed address is not the way:
// containers that start before nginx may have been given it.
func trust(t *testing.T, p *types.Project) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/compose/sluice/sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var conf struct {
		Proxies []string `json:"trusted_proxies"`
	}
	if err := yaml.Unmarshal(text, &conf); err != nil {
		t.Fatal(err)
	}
	for name, network := range p.Networks {
		for _, pool := range network.Ipam.Config {
			if !slices.Equal(conf.Proxies, []string{pool.Subnet}) {
				continue
			}
			for service, s := range p.Services {
				at, in := s.Networks[name]
				if in && at != nil && at.Ipv4Address != "" {
					t.Errorf("%s has the fixed address %s, which another container may have", service, at.Ipv4Address)
				}
				if in != (service == "nginx" || strings.HasPrefix(service, "node")) {
					t.Errorf("%s in the trusted network %s: %t", service, name, in)
				}
			}
			return
		}
	}
	t.Errorf("trusted_proxies are %q, which is no network of the file", conf.Proxies)
}
