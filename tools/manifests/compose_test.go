package manifests

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestCompose loads the file as docker compose does: schema, variables, extensions, references between
// services, networks and volumes.
func TestCompose(t *testing.T) {
	t.Parallel()
	file := filepath.Join("../../deploy/compose", "compose.yaml")
	env := []string{"SLUICE_SECRET=a", "POSTGRES_PASSWORD=b", "MINIO_PASSWORD=c"}
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
	// Without a password nothing must start.
	options, err = cli.NewProjectOptions([]string{file}, cli.WithEnv(env[:2]), cli.WithName("sluice"))
	if err == nil {
		_, err = options.LoadProject(t.Context())
	}
	if err == nil {
		t.Error("the file loads without MINIO_PASSWORD, want an error")
	}
}
