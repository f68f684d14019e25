// Package apicheck applies what the chart in deploy/helm renders to an API server of Kubernetes, which runs in the test:
// defaults, validation and the admission of pods are those of a cluster. It compiles Kubernetes, six minutes at first, so
// it is a module of its own that only make apicheck runs. The manifests are the snapshots of tools/manifests, which are
// compared with the chart there.
package apicheck

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"sigs.k8s.io/yaml"
)

// token is that of the test at the API server.
const token = "apicheck"

// manifests are what the chart renders, for one node and for several.
const manifests = "../manifests/testdata"

// foreign are kinds that an API server knows only from the operators that serve them.
var foreign = map[string]bool{"monitoring.coreos.com": true, "gateway.networking.k8s.io": true}

// TestApply applies every object, and creates the pods that controllers would create of them in namespaces that accept only
// restricted ones.
func TestApply(t *testing.T) {
	config := server(t)
	client := kubernetes.NewForConfigOrDie(config)
	objects := dynamic.NewForConfigOrDie(config)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d manifests in %s: %v", len(files), manifests, err)
	}
	for _, file := range files {
		name := "sluice-" + filepath.Base(file[:len(file)-len(".yaml")])
		space := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), space, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		applied := 0
		for _, o := range read(t, file) {
			kind := o.GroupVersionKind()
			if foreign[kind.Group] {
				t.Logf("%s: %s %s is for an operator that is not here", file, kind.Kind, o.GetName())
				continue
			}
			as, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				t.Fatal(err)
			}
			o.SetNamespace(name)
			_, err = objects.Resource(as.Resource).Namespace(name).Apply(t.Context(), o.GetName(), o, meta.ApplyOptions{FieldManager: "helm", Force: true})
			if err != nil {
				t.Errorf("%s: %s %s: %v", file, kind.Kind, o.GetName(), err)
			}
			applied++
			for _, pod := range pods(t, o) {
				if _, err := client.CoreV1().Pods(name).Create(t.Context(), pod, meta.CreateOptions{DryRun: []string{meta.DryRunAll}, FieldValidation: meta.FieldValidationStrict}); err != nil {
					t.Errorf("%s: the pod of %s %s: %v", file, kind.Kind, o.GetName(), err)
				}
			}
		}
		t.Logf("%s: %d objects applied", file, applied)
	}
	refuses(t, client)
}

// refuses shows that the server would have told: of a field that does not exist, and of a pod that is not restricted.
func refuses(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	wrong := []byte(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"x"},"spec":{"replica":1}}`)
	err := client.AppsV1().RESTClient().Patch(types.ApplyPatchType).Namespace("default").Resource("statefulsets").Name("x").Param("fieldManager", "x").Body(wrong).Do(t.Context()).Error()
	if err == nil {
		t.Error("a field that does not exist was accepted")
	}
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "x"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "x", Image: "x"}}}}
	if _, err := client.CoreV1().Pods("sluice-one").Create(t.Context(), pod, meta.CreateOptions{DryRun: []string{meta.DryRunAll}}); err == nil {
		t.Error("a pod that may run as root was accepted")
	}
}

// pods returns what a controller would create of an object.
func pods(t *testing.T, o *unstructured.Unstructured) []*core.Pod {
	t.Helper()
	for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
		template, ok, err := unstructured.NestedMap(o.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		pod := &core.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, pod, true); err != nil {
			t.Fatalf("the pod of %s: %v", o.GetName(), err)
		}
		pod.Name = o.GetName() + "-0"
		claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
		for _, c := range claims {
			name, _, _ := unstructured.NestedString(c.(map[string]any), "metadata", "name")
			from := core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + pod.Name}}
			pod.Spec.Volumes = append(pod.Spec.Volumes, core.Volume{Name: name, VolumeSource: from})
		}
		return []*core.Pod{pod}
	}
	return nil
}

// read returns the objects of a file.
func read(t *testing.T, file string) (all []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(doc, o); err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// server starts an API server with a store of its own, and returns how to call it.
func server(t *testing.T) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "accounts.key")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})))
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, token+",apicheck,1,system:masters\n")
	address := free(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs([]string{
		"--etcd-servers=" + store(t), "--bind-address=" + host, "--secure-port=" + port, "--cert-dir=" + dir, "--token-auth-file=" + tokens,
		"--service-account-issuer=https://" + address, "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "-v=0",
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(cancel) // it takes its time to end; the process does not wait for it
	config := &rest.Config{Host: "https://" + address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 1000, Burst: 1000}
	client := kubernetes.NewForConfigOrDie(config)
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("it ended: %w", err)
		default:
		}
		_, err := client.CoreV1().Namespaces().Get(ctx, "default", meta.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("the API server is not ready: %v", err)
	}
	return config
}

// store starts etcd and returns its address.
func store(t *testing.T) string {
	t.Helper()
	// Not t.TempDir, which must be empty of open files at the end of the test.
	dir, err := os.MkdirTemp("", "sluice-apicheck-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "fatal"
	// etcd calls itself at the address that it was given, so it needs a port from the beginning.
	peers, clients := url.URL{Scheme: "http", Host: free(t)}, url.URL{Scheme: "http", Host: free(t)}
	c.ListenPeerUrls, c.ListenClientUrls = []url.URL{peers}, []url.URL{clients}
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = c.ListenPeerUrls, c.ListenClientUrls
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	return clients.String()
}

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
