package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
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
	backup     batch.CronJob
	backups    core.PersistentVolumeClaim
}

// load decodes every document strictly: an unknown or repeated field is an error.
func load(t *testing.T) *objects {
	t.Helper()
	o := &objects{}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(folder, "monitoring/servicemonitor.yaml"))
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
	if seen != 13 {
		t.Errorf("%d objects were decoded, want 13", seen)
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
	case "batch/v1 CronJob":
		return &o.backup
	case "v1 PersistentVolumeClaim":
		return &o.backups
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
	job := o.backup.Spec.JobTemplate.Spec.Template.Spec
	for _, v := range job.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != o.backups.Name || v.ConfigMap != nil && v.ConfigMap.Name != o.config.Name {
			t.Errorf("nothing provides the volume %q of the backup", v.Name)
		}
	}
	if job.Containers[0].EnvFrom[0].SecretRef.Name != o.secret.Name || labels.SelectorFromSet(o.set.Spec.Selector.MatchLabels).Matches(labels.Set(o.backup.Spec.JobTemplate.Spec.Template.Labels)) {
		t.Error("the backup has no secret, or its pods look like nodes")
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
	for _, pod := range []core.PodSpec{pod, o.backup.Spec.JobTemplate.Spec.Template.Spec} {
		name := pod.Containers[0].Name
		if !yes(pod.SecurityContext.RunAsNonRoot) || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s may run as root, or without a filter of system calls", name)
		}
		s := pod.Containers[0].SecurityContext
		if yes(s.AllowPrivilegeEscalation) || s.AllowPrivilegeEscalation == nil || !yes(s.ReadOnlyRootFilesystem) || s.Capabilities.Drop[0] != "ALL" {
			t.Errorf("the security context of %s is %+v", name, s)
		}
		// With another policy, every start would let the group read what is in the volume, and the data folder is refused.
		if p := pod.SecurityContext.FSGroupChangePolicy; p == nil || *p != core.FSGroupChangeOnRootMismatch {
			t.Errorf("fsGroupChangePolicy of %s = %v, want OnRootMismatch", name, p)
		}
		data := ""
		for _, v := range pod.Containers[0].Env {
			if v.Name == "SLUICE_DATA" {
				data = v.Value
			}
		}
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool { return filepath.Dir(data) == m.MountPath }) {
			t.Errorf("the data folder of %s is %q, want one below a volume: the volume itself belongs to the group", name, data)
		}
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

// built runs kustomize on a folder, as kubectl apply -k does.
func built(t *testing.T, folder string) []map[string]any {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("kustomize build %s = %v", folder, err)
	}
	var objects []map[string]any
	for _, r := range all.Resources() {
		m, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, m)
	}
	return objects
}

// TestKustomization builds what kubectl apply -k applies. It must need no types that a cluster may not have, and have one
// place for the name of the image.
func TestKustomization(t *testing.T) {
	t.Parallel()
	applied := map[string]bool{}
	for _, o := range built(t, folder) {
		kind := fmt.Sprint(o["kind"])
		applied[kind] = true
		if group, _, _ := strings.Cut(fmt.Sprint(o["apiVersion"]), "/"); strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
			t.Errorf("%s is of %s, which not every cluster has", kind, group)
		}
		if kind == "Secret" {
			t.Error("the example of the secret would replace the real one")
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "image: sluice\n") {
			t.Errorf("the image of %s has no registry", kind)
		}
		if meta, _ := o["metadata"].(map[string]any); kind != "Namespace" && meta["namespace"] != "sluice" {
			t.Errorf("%s is in the namespace %v", kind, meta["namespace"])
		}
	}
	for _, kind := range []string{"Namespace", "ConfigMap", "Service", "StatefulSet", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "Ingress", "CronJob", "PersistentVolumeClaim"} {
		if !applied[kind] {
			t.Errorf("kubectl apply -k applies no %s", kind)
		}
	}
	if more := built(t, filepath.Join(folder, "monitoring")); len(more) != 1 || more[0]["kind"] != "ServiceMonitor" {
		t.Errorf("monitoring has %v, want the ServiceMonitor", more)
	}
}

// TestPage follows the page line by line: what a line needs must have been made by a line before it.
func TestPage(t *testing.T) {
	t.Parallel()
	o := load(t)
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	namespace, secret, nodes, pushed := false, false, false, ""
	in := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			in = line == "```sh"
			continue
		}
		if !in {
			continue
		}
		if strings.Contains(line, " -n sluice ") && !namespace {
			t.Errorf("%q needs the namespace", line)
		}
		words := strings.Fields(line)
		for i, w := range words {
			if strings.HasPrefix(w, "deploy/") {
				if _, err := os.Stat(filepath.Join("../..", w)); err != nil {
					t.Errorf("%q: %v", line, err)
				}
			}
			if i > 0 && words[i-1] == "push" {
				pushed = w
			}
		}
		switch {
		case strings.HasSuffix(line, "namespace.yaml"):
			namespace = true
		case strings.Contains(line, "create secret generic "+o.secret.Name+" "):
			secret = true
			for key := range o.secret.StringData {
				if !strings.Contains(line, "--from-literal="+key+"=") {
					t.Errorf("%q does not set %s", line, key)
				}
			}
		case strings.HasSuffix(line, "apply -k deploy/kubernetes"):
			if nodes = secret; !secret {
				t.Errorf("%q needs the secret", line)
			}
		case strings.Contains(line, " exec ") || strings.Contains(line, "rollout") || strings.Contains(line, "port-forward") || strings.Contains(line, "create job"):
			if !nodes {
				t.Errorf("%q needs the nodes", line)
			}
		}
	}
	if !nodes || !strings.Contains(string(text), "sluice key regenerate-master") {
		t.Error("the page does not get to a running node and its first key")
	}
	for _, b := range built(t, folder) {
		if b["kind"] != "StatefulSet" {
			continue
		}
		if text, err := yaml.Marshal(b); err != nil || pushed == "" || !strings.Contains(string(text), "image: "+pushed+"\n") {
			t.Errorf("the page pushes %q, which is not the image of the nodes (%v)", pushed, err)
		}
	}
}
