package manifests

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	root   = "../.."
	folder = root + "/deploy/helm/sluice"
	// released is the version of the chart in tests, so that snapshots do not change with every release.
	released = "0.0.0"
)

// many are the values of several nodes with everything that a chart of these can have; the example of the page is a variant
// of its own.
const many = `
replicas: 3
existingSecret: sluice
mountSecrets: [vendors]
postgres: {existingSecret: db-app}
redis: {url: "redis://:${REDIS_PASSWORD}@redis:6379"}
storage: {url: "s3://videos?endpoint=https://s3.example.com&region=eu-1"}
config: "public_url: https://api.example.com\n"
rollOnConfigChange: true
imagePullSecrets: [{name: registry}]
env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
service: {type: LoadBalancer, port: 8000, annotations: {example.com/a: b}}
httpRoute: {enabled: true, parentRefs: [{name: public, namespace: gateways}], hostnames: [api.example.com]}
autoscaling: {enabled: true, streams: 200}
networkPolicy: {enabled: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
backup: {enabled: true, storageClass: slow}
persistence: {storageClass: fast}
podLabels: {team: platform}
podAnnotations: {example.com/c: d}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: inference, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}
priorityClassName: high
`

// variants are the values that the chart is rendered with, and the objects that come of them.
var variants = map[string]struct{ values, objects string }{
	"one": {"", "ConfigMap Service Service StatefulSet"},
	"one with backups": {
		"backup: {enabled: true}\nconfig: \"sandbox: true\"",
		"ConfigMap CronJob PersistentVolumeClaim Service Service StatefulSet",
	},
	"one on PostgreSQL": {
		"existingSecret: sluice\npostgres: {url: \"postgres://db/sluice\"}\nmigrations: {enabled: false}",
		"ConfigMap Service Service StatefulSet",
	},
	"example": {
		"", // examples/many.yaml
		"ConfigMap ConfigMap CronJob Ingress Job NetworkPolicy PersistentVolumeClaim PodDisruptionBudget Service Service StatefulSet",
	},
	"many": {
		many,
		"ConfigMap ConfigMap CronJob HTTPRoute HorizontalPodAutoscaler Job NetworkPolicy PersistentVolumeClaim PodDisruptionBudget PrometheusRule Service Service ServiceMonitor StatefulSet",
	},
	"approximate": {
		"replicas: 2\nexistingSecret: sluice\npostgres: {url: \"postgres://db/sluice\"}\nconfig: \"cluster: approximate\"\nfullnameOverride: gate\ndisruptionBudget: {enabled: false}",
		"ConfigMap ConfigMap Job Service Service StatefulSet",
	},
}

// values returns the values of a variant.
func values(t *testing.T, name string) map[string]any {
	t.Helper()
	text := variants[name].values
	if name == "example" {
		text = read(t, "deploy/helm/sluice/examples/many.yaml")
	}
	out, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loadChart reads the chart as helm does.
func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = released, released
	return c
}

// render returns the documents that "helm template" prints, each with its file, and the notes.
func render(t *testing.T, with map[string]any) (docs map[string]string, notes string, err error) {
	t.Helper()
	c := loadChart(t)
	options := chartutil.ReleaseOptions{Name: "sluice", Namespace: "sluice", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c, with, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, "", err
	}
	docs = map[string]string{}
	for name, text := range files {
		if filepath.Base(name) == "NOTES.txt" {
			notes = text
			continue
		}
		for i, doc := range releaseutil.SplitManifests(text) {
			docs[filepath.Base(name)+" "+i] = doc
		}
	}
	return docs, notes, nil
}

// decoder knows the types of Kubernetes, of the Prometheus operator and of the Gateway API. An unknown or repeated field is
// an error.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, gateway.Install} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
}

// objects renders a variant and decodes all of it.
func objects(t *testing.T, name string) (out []runtime.Object) {
	t.Helper()
	docs, _, err := render(t, values(t, name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	d := decoder(t)
	for _, file := range slices.Sorted(maps.Keys(docs)) {
		o, _, err := d.Decode([]byte(docs[file]), nil, nil)
		if err != nil {
			t.Errorf("%s: %s: %v\n%s", name, file, err, docs[file])
			continue
		}
		out = append(out, o)
	}
	return out
}

// all returns the objects of a type.
func all[T runtime.Object](objects []runtime.Object) (out []T) {
	for _, o := range objects {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// TestVariants renders every variant: all of it must be what Kubernetes knows, and no kind must be missing or too many.
func TestVariants(t *testing.T) {
	t.Parallel()
	for name, v := range variants {
		var kinds []string
		for _, o := range objects(t, name) {
			kinds = append(kinds, o.GetObjectKind().GroupVersionKind().Kind)
		}
		slices.Sort(kinds)
		if got := strings.Join(kinds, " "); got != v.objects {
			t.Errorf("%s has the objects\n%s\nwant\n%s", name, got, v.objects)
		}
	}
}

// TestLint runs "helm lint" with every variant.
func TestLint(t *testing.T) {
	t.Parallel()
	for name := range variants {
		for _, m := range lint.All(folder, values(t, name), "sluice", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("helm lint with %s: %s", name, m)
			}
		}
	}
}

// TestRefusals renders what cannot work, and wants to be told what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"replicas: 3":                  "several nodes need PostgreSQL: set postgres.url",
		"autoscaling: {enabled: true}": "several nodes need PostgreSQL: set postgres.url",
		"replicas: 3\nexistingSecret: s\npostgres: {url: \"postgres://db\"}":                           `set redis.url, or "cluster: approximate" in config`,
		"postgres: {url: \"postgres://db\"}":                                                           "set existingSecret to the name of a secret that has it",
		"config: \"database: postgres://db\"":                                                          "config sets database: remove it there, and set postgres.url",
		"config: \"redis: redis://db\"":                                                                "config sets redis: remove it there, and set redis.url",
		"config: \"a: [\"":                                                                             "config is not YAML",
		"existingSecret: s\npostgres: {url: \"postgres://db\", existingSecret: db}":                    "both url and existingSecret of postgres are set",
		"httpRoute: {enabled: true}":                                                                   "httpRoute.parentRefs names no gateway",
		"existingSecret: s\npostgres: {url: a}\nredis: {url: b}\nautoscaling: {enabled: true, cpu: 0}": "set autoscaling.cpu or autoscaling.streams",
		"replica: 3":                    "additional properties 'replica' not allowed",
		"postgres: {uri: a}":            "additional properties 'uri' not allowed",
		"backup: {enabled: yes please}": "got string, want boolean",
	} {
		with, err := chartutil.ReadValues([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := render(t, with); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("render(%q) = %v, want %q", in, err, want)
		}
	}
}

// TestNotes checks the commands of the notes, which people paste.
func TestNotes(t *testing.T) {
	t.Parallel()
	_, notes, err := render(t, values(t, "one with backups"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"kubectl -n sluice exec sluice-0 -- sluice key regenerate-master",
		"kubectl -n sluice port-forward service/sluice 8080:80",
		"kubectl -n sluice create job backup-now --from=cronjob/sluice-backup",
	} {
		if !strings.Contains(notes, "\n  "+line+"\n") {
			t.Errorf("the notes have no line %q:\n%s", line, notes)
		}
	}
}
