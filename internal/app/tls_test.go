package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate puts a fresh certificate for 127.0.0.1 and its key into the folder. The key is
// replaced first: whoever reads between the two must not see a pair that fits by chance.
func writeCertificate(t *testing.T, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: until.Add(-100 * 24 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	replace(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretDER})))
	replace(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, key
}

// trust makes the node's client believe the certificate that lies in the folder now.
func (n *node) trust(cert string) {
	n.t.Helper()
	raw, err := os.ReadFile(cert)
	if err != nil {
		n.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		n.t.Fatal("no certificate in the file")
	}
	n.scheme = "https://"
	n.client.CloseIdleConnections()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}, IdleConnTimeout: time.Minute}
	n.t.Cleanup(transport.CloseIdleConnections)
	n.client = &http.Client{Transport: transport, Timeout: patience}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	soon := time.Now().Add(30 * 24 * time.Hour)
	cert, key := writeCertificate(t, dir, 1, soon)
	s := newSite(t, "tls: {cert: "+cert+", key: "+key+"}\n")
	n := s.start(t)
	serial := func() int64 {
		t.Helper()
		n.trust(cert)
		r := n.get("/v1/models", n.OwnerKey())
		if r.status != 200 || r.proto != "HTTP/2.0" {
			t.Errorf("GET /v1/models = %d over %s, want 200 over HTTP/2.0", r.status, r.proto)
		}
		return r.tls.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d is served, want 1", got)
	}
	// The error object and its headers are the same over HTTP/2.
	if r := n.request("POST", "/v1/chat/completions", "", "{}"); r.status != 401 || r.header.Get("X-Request-Id") == "" || !strings.Contains(r.body, `"code":401`) {
		t.Errorf("POST without a key over HTTP/2 = %d %v %s, want 401 and the error object", r.status, r.header, r.body)
	}

	writeCertificate(t, dir, 2, soon)
	if err := n.Reload(); err != nil {
		t.Fatalf("Reload = %v", err)
	}
	if got := serial(); got != 2 {
		t.Errorf("certificate %d is served after the reload, want 2", got)
	}

	// A broken pair is refused and the old one stays.
	good, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, cert, "no certificate")
	if err := n.Reload(); err == nil || !strings.Contains(err.Error(), "tls: ") {
		t.Errorf("Reload with a broken certificate = %v, want an error about tls", err)
	}
	replace(t, cert, string(good))
	if got := serial(); got != 2 {
		t.Errorf("certificate %d is served after a broken one, want 2", got)
	}

	// The files are watched like the configuration.
	writeCertificate(t, dir, 3, soon)
	n.trust(cert)
	eventually(t, "the change of the certificate", func() bool {
		n.client.CloseIdleConnections()
		r, err := n.do("GET", "/healthz", "", "")
		return err == nil && r.tls.PeerCertificates[0].SerialNumber.Int64() == 3
	})

	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := plain.Get("http://" + n.Addr() + "/healthz")
	if err != nil {
		t.Fatalf("a plain request = %v, want a reply that says why not", err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("a plain request to the TLS port = %d, want 400", resp.StatusCode)
	}
}
