package manifests

import (
	"maps"
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
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	admission "k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

// pods returns the templates of all pods by the name of their first container: "sluice" are the nodes.
func pods(objects []runtime.Object) map[string]core.PodTemplateSpec {
	out := map[string]core.PodTemplateSpec{}
	for _, o := range objects {
		var p core.PodTemplateSpec
		switch o := o.(type) {
		case *apps.StatefulSet:
			p = o.Spec.Template
		case *batch.CronJob:
			p = o.Spec.JobTemplate.Spec.Template
		case *batch.Job:
			p = o.Spec.Template
		default:
			continue
		}
		out[p.Spec.Containers[0].Name] = p
	}
	return out
}

// TestSelectors checks that everything that selects pods selects the nodes, and nothing else.
func TestSelectors(t *testing.T) {
	t.Parallel()
	for name := range variants {
		objects := objects(t, name)
		selectors := map[string]map[string]string{}
		for _, o := range objects {
			switch o := o.(type) {
			case *apps.StatefulSet:
				selectors["the set"] = o.Spec.Selector.MatchLabels
			case *policy.PodDisruptionBudget:
				selectors["the budget"] = o.Spec.Selector.MatchLabels
			case *networking.NetworkPolicy:
				selectors["the policy"] = o.Spec.PodSelector.MatchLabels
				selectors["the policy's peers"] = o.Spec.Ingress[0].From[0].PodSelector.MatchLabels
			case *core.Service:
				selectors["service "+o.Name] = o.Spec.Selector
			}
		}
		for what, selector := range selectors {
			for container, pod := range pods(objects) {
				if got := labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)); len(selector) == 0 || got != (container == "sluice") {
					t.Errorf("%s: %s selects %v: %t for the pods of %s, %v", name, what, selector, got, container, pod.Labels)
				}
			}
		}
	}
}

// TestReferences checks what refers to another object by name or port, which no schema knows.
func TestReferences(t *testing.T) {
	t.Parallel()
	for name := range variants {
		objects := objects(t, name)
		ports := map[string]bool{}
		for _, p := range pods(objects)["sluice"].Spec.Containers[0].Ports {
			ports[p.Name] = true
		}
		services := map[string]*core.Service{}
		for _, s := range all[*core.Service](objects) {
			services[s.Name] = s
			if p := s.Spec.Ports[0].TargetPort.StrVal; !ports[p] {
				t.Errorf("%s: service %s has the target port %q, which the container does not have", name, s.Name, p)
			}
		}
		set := all[*apps.StatefulSet](objects)[0]
		if services[set.Spec.ServiceName].Spec.ClusterIP != core.ClusterIPNone {
			t.Errorf("%s: the set's service %q is not headless", name, set.Spec.ServiceName)
		}
		for _, i := range all[*networking.Ingress](objects) {
			backend := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service
			if s := services[backend.Name]; s == nil || s.Spec.Ports[0].Name != backend.Port.Name {
				t.Errorf("%s: the ingress sends to %s:%s, which is no service", name, backend.Name, backend.Port.Name)
			}
		}
		for _, r := range all[*gateway.HTTPRoute](objects) {
			backend := r.Spec.Rules[0].BackendRefs[0]
			if s := services[string(backend.Name)]; s == nil || s.Spec.Ports[0].Port != int32(*backend.Port) {
				t.Errorf("%s: the route sends to %s:%d, which is no service", name, backend.Name, *backend.Port)
			}
		}
		for _, m := range all[*monitoring.ServiceMonitor](objects) {
			s := services[set.Spec.ServiceName]
			if !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels)) || m.Spec.Endpoints[0].Port != s.Spec.Ports[0].Name {
				t.Errorf("%s: the ServiceMonitor does not select the port of %s", name, s.Name)
			}
			if s.Labels[m.Spec.JobLabel] != "sluice" {
				t.Errorf("%s: the job is not sluice, which the alerts expect", name)
			}
		}
		scaled(t, name, set, all[*autoscaling.HorizontalPodAutoscaler](objects))
	}
}

// scaled checks that either the autoscaler or the chart says how many nodes there are.
func scaled(t *testing.T, name string, set *apps.StatefulSet, scalers []*autoscaling.HorizontalPodAutoscaler) {
	t.Helper()
	if (set.Spec.Replicas == nil) != (len(scalers) == 1) {
		t.Errorf("%s: the set has replicas %v beside %d autoscalers", name, set.Spec.Replicas, len(scalers))
	}
	for _, s := range scalers {
		if ref := s.Spec.ScaleTargetRef; ref.Kind != "StatefulSet" || ref.Name != set.Name || len(s.Spec.Metrics) != 2 {
			t.Errorf("%s: the autoscaler scales %s %s by %d metrics, want the set by CPU and streams", name, ref.Kind, ref.Name, len(s.Spec.Metrics))
		}
	}
}

// TestVolumes checks that every mount has a volume, every volume an object, and that data folders are below a volume.
func TestVolumes(t *testing.T) {
	t.Parallel()
	for name := range variants {
		objects := objects(t, name)
		there := map[string]bool{"secret vendors": true, "claim data-sluice-0": true} // made by the operator, and by the set
		for _, c := range all[*core.ConfigMap](objects) {
			there["config "+c.Name] = true
		}
		for _, c := range all[*core.PersistentVolumeClaim](objects) {
			there["claim "+c.Name] = true
		}
		claims := all[*apps.StatefulSet](objects)[0].Spec.VolumeClaimTemplates
		for container, pod := range pods(objects) {
			volumes := map[string]bool{claims[0].Name: container == "sluice"}
			for _, v := range pod.Spec.Volumes {
				volumes[v.Name] = v.EmptyDir != nil || v.ConfigMap != nil && there["config "+v.ConfigMap.Name] ||
					v.Secret != nil && there["secret "+v.Secret.SecretName] || v.PersistentVolumeClaim != nil && there["claim "+v.PersistentVolumeClaim.ClaimName]
			}
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				data := variable(c, "SLUICE_DATA")
				below := false
				for _, m := range c.VolumeMounts {
					below = below || filepath.Dir(data) == m.MountPath
					if !volumes[m.Name] {
						t.Errorf("%s: nothing provides the volume %q of %s", name, m.Name, c.Name)
					}
				}
				if !below {
					t.Errorf("%s: the data folder of %s is %q, want one below a volume: the volume itself belongs to the group", name, c.Name, data)
				}
			}
		}
	}
}

// variable returns the value of an environment variable.
func variable(c core.Container, name string) string {
	at := slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == name })
	if at < 0 {
		return ""
	}
	return c.Env[at].Value
}

// TestRestricted asks the admission of Kubernetes whether all pods may run in a namespace with the strictest standard.
func TestRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := admission.NewEvaluator(admission.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	for name := range variants {
		for container, pod := range pods(objects(t, name)) {
			result := admission.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				t.Errorf("%s: the pods of %s are refused: %s", name, container, result.ForbiddenDetail())
			}
			// With another policy, every start would let the group read what is in the volume, and the data folder is refused.
			if p := pod.Spec.SecurityContext.FSGroupChangePolicy; p == nil || *p != core.FSGroupChangeOnRootMismatch {
				t.Errorf("%s: fsGroupChangePolicy of %s = %v, want OnRootMismatch", name, container, p)
			}
			if s := pod.Spec.Containers[0].SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s: the root of %s can be written", name, container)
			}
		}
	}
}

// TestProbes checks who is asked what. A node that waits for PostgreSQL, or migrates, has only the port of the metrics, and
// must not be killed.
func TestProbes(t *testing.T) {
	t.Parallel()
	c := pods(objects(t, "one"))["sluice"].Spec.Containers[0]
	for name, probe := range map[string]struct {
		*core.Probe
		port, path string
	}{"startup": {c.StartupProbe, "metrics", "/healthz"}, "readiness": {c.ReadinessProbe, "http", "/readyz"}, "liveness": {c.LivenessProbe, "metrics", "/healthz"}} {
		if probe.Probe == nil || probe.HTTPGet.Port.StrVal != probe.port || probe.HTTPGet.Path != probe.path {
			t.Errorf("the %s probe is %+v, want %s on the port %s: a database that is away is no reason to restart", name, probe.Probe, probe.path, probe.port)
		}
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Error("the autoscaler needs a request for CPU, and the node a limit of memory")
	}
}

// TestMigrations checks the hook of an upgrade. The new configuration must be there before the job, and neither may stay.
func TestMigrations(t *testing.T) {
	t.Parallel()
	objects := objects(t, "many")
	job := all[*batch.Job](objects)[0]
	config := all[*core.ConfigMap](objects)[slices.IndexFunc(all[*core.ConfigMap](objects), func(c *core.ConfigMap) bool { return c.Name == job.Name })]
	for _, o := range []meta.ObjectMeta{job.ObjectMeta, config.ObjectMeta} {
		if o.Annotations["helm.sh/hook"] != "pre-upgrade" || !strings.Contains(o.Annotations["helm.sh/hook-delete-policy"], "hook-succeeded") {
			t.Errorf("the annotations of the hook are %v", o.Annotations)
		}
	}
	if config.Annotations["helm.sh/hook-weight"] != "-1" || job.Annotations["helm.sh/hook-weight"] != "" {
		t.Error("the job comes before its configuration")
	}
	pod := job.Spec.Template.Spec
	if got := append(slices.Clone(pod.InitContainers[0].Args), pod.Containers[0].Args...); strings.Join(got, " ") != "upgrade check upgrade database" {
		t.Errorf("the job runs %q", got)
	}
}

// TestRolls checks which changes replace the nodes: addresses of databases do, because they need a restart. A changed
// configuration is reloaded, unless the values ask for a restart.
func TestRolls(t *testing.T) {
	t.Parallel()
	annotations := func(change func(map[string]any)) map[string]string {
		with := values(t, "example")
		change(with)
		docs, _, err := render(t, with)
		if err != nil {
			t.Fatal(err)
		}
		for name, doc := range docs {
			if strings.HasPrefix(name, "statefulset.yaml") {
				o, _, err := decoder(t).Decode([]byte(doc), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				return o.(*apps.StatefulSet).Spec.Template.Annotations
			}
		}
		return nil
	}
	before := annotations(func(map[string]any) {})
	config := func(v map[string]any) { v["config"] = "sandbox: false" }
	for what, change := range map[string]struct {
		do    func(map[string]any)
		rolls bool
	}{
		"the database":              {func(v map[string]any) { v["postgres"] = map[string]any{"url": "postgres://other/sluice"} }, true},
		"the configuration":         {config, false},
		"the configuration, rolled": {func(v map[string]any) { config(v); v["rollOnConfigChange"] = true }, true},
	} {
		if got := !maps.Equal(before, annotations(change.do)); got != change.rolls {
			t.Errorf("a change of %s replaces the nodes: %t, want %t", what, got, change.rolls)
		}
	}
}
