package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/kubernetes"

// objects are the decoded manifests.
type objects struct {
	namespace  core.Namespace
	config     core.ConfigMap
	secret     core.Secret
	services   []core.Service
	set        apps.StatefulSet
	disruption policy.PodDisruptionBudget
	scaler     autoscaling.HorizontalPodAutoscaler
	network    networking.NetworkPolicy
	ingress    networking.Ingress
	monitor    monitoring.ServiceMonitor
}

// load decodes every document strictly: an unknown or repeated field is an error.
func load(t *testing.T) *objects {
	t.Helper()
	o := &objects{}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			if into := o.place(t, file, doc); into != nil {
				seen++
				if err := yaml.UnmarshalStrict(doc, into); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if seen != 11 {
		t.Errorf("%d objects were decoded, want 11", seen)
	}
	return o
}

// place returns where a document belongs, by its kind and version.
func (o *objects) place(t *testing.T, file string, doc []byte) any {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(doc, &head); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	switch head.APIVersion + " " + head.Kind {
	case "kustomize.config.k8s.io/v1beta1 Kustomization":
		return nil // see TestKustomization
	case "v1 Namespace":
		return &o.namespace
	case "v1 ConfigMap":
		return &o.config
	case "v1 Secret":
		return &o.secret
	case "v1 Service":
		o.services = append(o.services, core.Service{})
		return &o.services[len(o.services)-1]
	case "apps/v1 StatefulSet":
		return &o.set
	case "policy/v1 PodDisruptionBudget":
		return &o.disruption
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return &o.scaler
	case "networking.k8s.io/v1 NetworkPolicy":
		return &o.network
	case "networking.k8s.io/v1 Ingress":
		return &o.ingress
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return &o.monitor
	}
	t.Errorf("%s: %s %s is not known to this test", file, head.APIVersion, head.Kind)
	return nil
}

// TestReferences checks what refers to something else by name, which no schema knows.
func TestReferences(t *testing.T) {
	t.Parallel()
	o := load(t)
	pod := o.set.Spec.Template
	c := pod.Spec.Containers[0]
	selects := func(what string, selector map[string]string) {
		t.Helper()
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s selects %v, which the pods do not have: %v", what, selector, pod.Labels)
		}
	}
	selects("the set", o.set.Spec.Selector.MatchLabels)
	selects("the budget", o.disruption.Spec.Selector.MatchLabels)
	selects("the network policy", o.network.Spec.PodSelector.MatchLabels)
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	services := map[string]core.Service{}
	for _, s := range o.services {
		selects("service "+s.Name, s.Spec.Selector)
		services[s.Name] = s
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("service %s has the target port %q, which the container does not have", s.Name, p.TargetPort.StrVal)
			}
		}
	}
	if services[o.set.Spec.ServiceName].Spec.ClusterIP != core.ClusterIPNone {
		t.Errorf("the set's service %q is not headless", o.set.Spec.ServiceName)
	}
	backend := o.ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if s, ok := services[backend.Name]; !ok || s.Spec.Ports[0].Name != backend.Port.Name {
		t.Errorf("the ingress sends to %s:%s, which is no service", backend.Name, backend.Port.Name)
	}
	if ref := o.scaler.Spec.ScaleTargetRef; ref.Kind != "StatefulSet" || ref.Name != o.set.Name || o.set.Spec.Replicas != nil {
		t.Errorf("the autoscaler scales %s %s, and the set has replicas %v", ref.Kind, ref.Name, o.set.Spec.Replicas)
	}
	monitored := services["sluice-nodes"]
	if !labels.SelectorFromSet(o.monitor.Spec.Selector.MatchLabels).Matches(labels.Set(monitored.Labels)) || o.monitor.Spec.Endpoints[0].Port != monitored.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor does not select the port of %v", monitored.Name)
	}
	if monitored.Labels[o.monitor.Spec.JobLabel] != "sluice" {
		t.Error("the job is not sluice, which the alerts expect")
	}
	for _, v := range c.VolumeMounts {
		if v.Name != o.set.Spec.VolumeClaimTemplates[0].Name && v.Name != pod.Spec.Volumes[0].Name {
			t.Errorf("nothing provides the volume %q", v.Name)
		}
	}
	if pod.Spec.Volumes[0].ConfigMap.Name != o.config.Name || c.EnvFrom[0].SecretRef.Name != o.secret.Name {
		t.Error("the pods use another ConfigMap or Secret than the files have")
	}
	// Every variable of the configuration is in the secret.
	for name := range strings.SplitSeq(o.config.Data["sluice.yaml"], "${") {
		if name, _, ok := strings.Cut(name, "}"); ok && o.secret.StringData[name] == "" {
			t.Errorf("the configuration needs %s, which the secret does not have", name)
		}
	}
}

// TestRestricted checks what the namespace's standard, restricted, asks of the pods, and the probes.
func TestRestricted(t *testing.T) {
	t.Parallel()
	o := load(t)
	pod := o.set.Spec.Template.Spec
	c := pod.Containers[0]
	yes := func(p *bool) bool { return p != nil && *p }
	if !yes(pod.SecurityContext.RunAsNonRoot) || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Error("the pods may run as root, or without a filter of system calls")
	}
	s := c.SecurityContext
	if yes(s.AllowPrivilegeEscalation) || s.AllowPrivilegeEscalation == nil || !yes(s.ReadOnlyRootFilesystem) || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container's security context is %+v", s)
	}
	// A node that waits for PostgreSQL, or migrates, has only the port of the metrics, and must not be killed.
	for name, probe := range map[string]struct {
		*core.Probe
		port string
	}{"startup": {c.StartupProbe, "metrics"}, "readiness": {c.ReadinessProbe, "http"}, "liveness": {c.LivenessProbe, "metrics"}} {
		if probe.Probe == nil || probe.HTTPGet.Port.StrVal != probe.port {
			t.Errorf("the %s probe is %+v, want it on the port %s", name, probe.Probe, probe.port)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Error("readiness must ask /readyz, and liveness must not: a database that is away is no reason to restart")
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Error("the autoscaler needs a request for CPU, and the node a limit of memory")
	}
}

// TestKustomization wants every manifest listed, but for the example of the secret.
func TestKustomization(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		APIVersion, Kind, Namespace string
		Resources                   []string
	}
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"kustomization.yaml": true, "secret.example.yaml": true}
	for _, name := range k.Resources {
		listed[name] = true
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("kustomization.yaml does not list %s", f.Name())
		}
		delete(listed, f.Name())
	}
	for name := range listed {
		t.Errorf("kustomization.yaml lists %s, which does not exist", name)
	}
}
