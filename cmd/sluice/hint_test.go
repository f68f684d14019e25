package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		is      process
		environ []string
		files   map[string]string
		data    string
		want    string
	}{
		"by hand":                          {process{id: 77}, nil, nil, "/srv/data", "sluice W --data /srv/data"},
		"a path with a space":              {process{id: 77}, nil, nil, "/srv/my data", "sluice W --data '/srv/my data'"},
		"a service":                        {process{id: 77}, []string{"SYSTEMD_EXEC_PID=77", "USER=sluice"}, nil, "/d", "sudo -u sluice sluice W --data /d"},
		"a service of root":                {process{id: 77}, []string{"SYSTEMD_EXEC_PID=77", "USER=root"}, nil, "/d", "sluice W --data /d"},
		"a shell that a service started":   {process{id: 78}, []string{"SYSTEMD_EXEC_PID=77", "USER=ana"}, nil, "/d", "sluice W --data /d"},
		"docker":                           {process{1, "3f2a"}, nil, map[string]string{".dockerenv": ""}, "/data", "docker exec 3f2a sluice W --data /data"},
		"podman":                           {process{1, "3f2a"}, nil, map[string]string{"run/.containerenv": ""}, "/data", "podman exec 3f2a sluice W --data /data"},
		"podman with a read-only root":     {process{1, "3f2a"}, []string{"container=podman"}, nil, "/data", "podman exec 3f2a sluice W --data /data"},
		"a shell in a container":           {process{9, "3f2a"}, nil, map[string]string{".dockerenv": ""}, "/data", "sluice W --data /data"},
		"a pod":                            {process{1, "sluice-0"}, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, nil, "/data", "kubectl exec sluice-0 -- sluice W --data /data"},
		"a pod that is told its namespace": {process{1, "sluice-0"}, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "POD_NAMESPACE=gw"}, nil, "/data", "kubectl exec -n gw sluice-0 -- sluice W --data /data"},
		"a pod with a service account": {
			process{1, "sluice-0"},
			[]string{"KUBERNETES_SERVICE_HOST=10.0.0.1"},
			map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/namespace": "gw"},
			"/data", "kubectl exec -n gw sluice-0 -- sluice W --data /data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &program{environ: tt.environ, machine: t.TempDir()}
			for name, text := range tt.files {
				path := filepath.Join(p.machine, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.hint(tt.is, tt.data, "W"); got != tt.want {
				t.Errorf("hint(%+v, %q) = %q, want %q", tt.is, tt.data, got, tt.want)
			}
		})
	}
}
