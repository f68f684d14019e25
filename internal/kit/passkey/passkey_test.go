package passkey_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"strings"
	"testing"

	"sluice/internal/kit/passkey"
	"sluice/internal/kit/passkey/passkeytest"
)

const challenge = "a challenge of the server"

var site = passkey.Site{Origin: "https://example.com", ID: "example.com"}

// made returns a device and the credential that a server keeps of it.
func made(t *testing.T, algorithm int) (*passkeytest.Device, *passkey.Credential) {
	t.Helper()
	d := passkeytest.New(algorithm)
	d.Counter = 7
	r, err := passkey.Parse(d.Make(site, challenge, "acct_1", nil))
	if err != nil {
		t.Fatal(err)
	}
	c, err := site.New(r)
	if err != nil {
		t.Fatalf("New of algorithm %d = %v", algorithm, err)
	}
	if r.Challenge() != challenge || !bytes.Equal(c.ID, d.ID) || c.Algorithm != algorithm || c.Counter != 7 {
		t.Errorf("New = %+v to %q, want the device's", c, r.Challenge())
	}
	return d, c
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []int{passkey.ES256, passkey.EdDSA, passkey.RS256} {
		d, c := made(t, algorithm)
		r, err := passkey.Parse(d.Use(site, challenge, nil))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := site.Check(r, c, true); n != 8 || err != nil || r.User() != "acct_1" || r.Challenge() != challenge || !bytes.Equal(r.Credential(), d.ID) {
			t.Errorf("Check of algorithm %d = %d, %v, want 8", algorithm, n, err)
		}
		// Extensions are not read, but they are signed.
		r, err = passkey.Parse(d.Use(site, challenge, func(p *passkeytest.Parts) { p.Flags |= 1 << 7; p.Extra = []byte{0xa0} }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.Check(r, c, true); err != nil {
			t.Errorf("Check with extensions = %v", err)
		}
	}
}

// Whatever is wrong with the use of a passkey, it is refused.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	other := passkeytest.New(passkey.ES256)
	tests := []struct {
		name string
		edit func(p *passkeytest.Parts)
		want string // part of the error; empty: it passes
	}{
		{"nothing", func(*passkeytest.Parts) {}, ""},
		{"type", func(p *passkeytest.Parts) { p.Type = "webauthn.create" }, "another type"},
		{"origin", func(p *passkeytest.Parts) { p.Origin = "https://evil.example" }, "origin"},
		{"origin, another port", func(p *passkeytest.Parts) { p.Origin += ":8443" }, "origin"},
		{"origin, another scheme", func(p *passkeytest.Parts) { p.Origin = "http://example.com" }, "origin"},
		{"origin, a subdomain", func(p *passkeytest.Parts) { p.Origin = "https://a.example.com" }, "origin"},
		{"embedded", func(p *passkeytest.Parts) { p.CrossOrigin = true }, "embedded"},
		{"site", func(p *passkeytest.Parts) { p.Site = "evil.example" }, "another site"},
		{"nobody there", func(p *passkeytest.Parts) { p.Flags = passkeytest.Verified }, "present"},
		{"not verified", func(p *passkeytest.Parts) { p.Flags = passkeytest.Present }, "not verified"},
		{"copied but not to be copied", func(p *passkeytest.Parts) { p.Flags |= 1 << 4 }, "contradict"},
		{"a new credential", func(p *passkeytest.Parts) { p.Flags |= passkeytest.Credential; p.Credential = p.ID }, "new credential"},
		{"another id", func(p *passkeytest.Parts) { p.ID = other.ID }, "another one"},
		{"signature", func(p *passkeytest.Parts) { p.Spoil = func(_, s []byte) { s[len(s)-1] ^= 1 } }, "signature"},
		{"counter after signing", func(p *passkeytest.Parts) { p.Spoil = func(d, _ []byte) { d[36] ^= 1 } }, "signature"},
		{"more data", func(p *passkeytest.Parts) { p.Extra = []byte{0} }, "wrong length"},
		{"extensions announced", func(p *passkeytest.Parts) { p.Flags |= 1 << 7 }, "wrong length"},
	}
	for _, algorithm := range []int{passkey.ES256, passkey.EdDSA, passkey.RS256} {
		d, c := made(t, algorithm)
		for _, tt := range tests {
			r, err := passkey.Parse(d.Use(site, challenge, tt.edit))
			if err != nil {
				t.Fatal(err)
			}
			_, err = site.Check(r, c, true)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check with wrong %s, algorithm %d = %v, want %q", tt.name, algorithm, err, tt.want)
			}
		}
		// The key of somebody else, and another algorithm than the key's.
		r, err := passkey.Parse(d.Use(site, challenge, nil))
		if err != nil {
			t.Fatal(err)
		}
		_, stranger := made(t, algorithm)
		for _, wrong := range []passkey.Credential{{ID: c.ID, Key: stranger.Key, Algorithm: algorithm}, {ID: c.ID, Key: c.Key, Algorithm: -999}, {ID: c.ID, Key: []byte("x"), Algorithm: algorithm}} {
			if _, err := site.Check(r, &wrong, true); err == nil {
				t.Errorf("Check with another key or algorithm %d passes", wrong.Algorithm)
			}
		}
	}
	// Where a password came first, the device need not verify its user.
	d, c := made(t, passkey.ES256)
	r, err := passkey.Parse(d.Use(site, challenge, func(p *passkeytest.Parts) { p.Flags = passkeytest.Present }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := site.Check(r, c, false); err != nil {
		t.Errorf("Check without verification = %v", err)
	}
}

// pkix returns the stored form of a public key.
func pkix(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// Whatever is wrong with a new passkey, it is refused.
func TestWrongNew(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // a mode of Go that makes no such keys
	}
	_, another := made(t, passkey.ES256)
	for _, tt := range []struct {
		name string
		edit func(p *passkeytest.Parts)
		want string
	}{
		{"type", func(p *passkeytest.Parts) { p.Type = "webauthn.get" }, "another type"},
		{"origin", func(p *passkeytest.Parts) { p.Origin = "https://evil.example" }, "origin"},
		{"embedded", func(p *passkeytest.Parts) { p.CrossOrigin = true }, "embedded"},
		{"site", func(p *passkeytest.Parts) { p.Site = "evil.example" }, "another site"},
		{"nobody there", func(p *passkeytest.Parts) { p.Flags &^= passkeytest.Present }, "present"},
		{"no credential", func(p *passkeytest.Parts) { p.Flags &^= passkeytest.Credential }, "no credential"},
		{"another id", func(p *passkeytest.Parts) { p.ID = []byte("other") }, "another credential id"},
		{"an empty id", func(p *passkeytest.Parts) { p.Credential = nil }, "too short"},
		{"another key", func(p *passkeytest.Parts) { p.Key = another.Key }, "another key"},
		{"no key", func(p *passkeytest.Parts) { p.Key = []byte{} }, "asn1"},
		{"a long key", func(p *passkeytest.Parts) { p.Key = make([]byte, 1025) }, "too long"},
		{"algorithm", func(p *passkeytest.Parts) { p.Algorithm = passkey.RS256 }, "kind"},
		{"curve", func(p *passkeytest.Parts) { p.Key = pkix(t, &p384.PublicKey) }, "kind"},
		{"a short RSA key", func(p *passkeytest.Parts) { p.Key, p.Algorithm = pkix(t, &short.PublicKey), passkey.RS256 }, "kind"},
	} {
		r, err := passkey.Parse(passkeytest.New(passkey.ES256).Make(site, challenge, "acct_1", tt.edit))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := site.New(r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New with wrong %s = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "x", "[]", `{}`, `{"id":"!"}`, `{"id":"AA"}`, `{"id":"AA","client":"e30","data":"="}`, `{"id":"AA","client":"W10"}`,
		`{"id":"","client":"e30"}`, `{"id":"` + strings.Repeat("A", 1366) + `","client":"e30"}`, strings.Repeat(" ", 16<<10) + "{}",
	} {
		if r, err := passkey.Parse(text); err == nil {
			t.Errorf("Parse(%.40q) = %+v, want an error", text, r)
		}
	}
}

func TestSiteAt(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]passkey.Site{
		"https://example.com":      {Origin: "https://example.com", ID: "example.com"},
		"https://Example.com:443":  {Origin: "https://example.com", ID: "example.com"},
		"https://example.com:8443": {Origin: "https://example.com:8443", ID: "example.com"},
		"http://localhost:8080":    {Origin: "http://localhost:8080", ID: "localhost"},
		"http://127.0.0.1:8080":    {Origin: "http://localhost:8080", ID: "localhost"},
		"http://[::1]:80":          {Origin: "http://localhost", ID: "localhost"},
		"https://192.0.2.1":        {},
		"https://[2001:db8::1]:1":  {},
		"":                         {},
		"://":                      {},
	} {
		if got, ok := passkey.SiteAt(origin); got != want || ok != (want.ID != "") {
			t.Errorf("SiteAt(%q) = %+v, %t, want %+v", origin, got, ok, want)
		}
	}
}
