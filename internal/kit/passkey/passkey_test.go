package passkey_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"os"
	"slices"
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
	r, err := passkey.ParseMade(d.Make(site, challenge, "acct_1", nil))
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
		r, err := passkey.ParseUsed(d.Use(site, challenge, nil))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := site.Check(r, c, true); n != 8 || err != nil || r.User() != "acct_1" || r.Challenge() != challenge || !bytes.Equal(r.Credential(), d.ID) {
			t.Errorf("Check of algorithm %d = %d, %v, want 8", algorithm, n, err)
		}
		// Extensions are signed, too.
		r, err = passkey.ParseUsed(d.Use(site, challenge, func(p *passkeytest.Parts) { p.Flags |= 1 << 7; p.Extra = []byte{0xa0} }))
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
		{"type", func(p *passkeytest.Parts) { p.Type = "webauthn.create" }, "ceremony type"},
		{"origin", func(p *passkeytest.Parts) { p.Origin = "https://evil.example" }, "origin"},
		{"origin, another port", func(p *passkeytest.Parts) { p.Origin += ":8443" }, "origin"},
		{"origin, another scheme", func(p *passkeytest.Parts) { p.Origin = "http://example.com" }, "origin"},
		{"origin, a subdomain", func(p *passkeytest.Parts) { p.Origin = "https://a.example.com" }, "origin"},
		{"embedded", func(p *passkeytest.Parts) { p.CrossOrigin = true }, "cross origin"},
		{"site", func(p *passkeytest.Parts) { p.Site = "evil.example" }, "RP Hash"},
		{"nobody there", func(p *passkeytest.Parts) { p.Flags = passkeytest.Verified }, "presence"},
		{"not verified", func(p *passkeytest.Parts) { p.Flags = passkeytest.Present }, "verification"},
		{"copied but not to be copied", func(p *passkeytest.Parts) { p.Flags |= 1 << 4 }, "contradict"},
		{"a new credential", func(p *passkeytest.Parts) {
			p.Flags |= passkeytest.Credential
			p.Credential, p.Key = p.ID, map[int]any{1: 1}
		}, "new credential"},
		{"another id", func(p *passkeytest.Parts) { p.ID = other.ID }, "another one"},
		{"signature", func(p *passkeytest.Parts) { p.Spoil = func(_, s []byte) { s[len(s)-1] ^= 1 } }, "signature"},
		{"counter after signing", func(p *passkeytest.Parts) { p.Spoil = func(d, _ []byte) { d[36] ^= 1 } }, "signature"},
		{"more data", func(p *passkeytest.Parts) { p.Extra = []byte{0} }, "auth data"},
		{"extensions announced", func(p *passkeytest.Parts) { p.Flags |= 1 << 7 }, "auth data"},
	}
	for _, algorithm := range []int{passkey.ES256, passkey.EdDSA, passkey.RS256} {
		d, c := made(t, algorithm)
		for _, tt := range tests {
			r, err := passkey.ParseUsed(d.Use(site, challenge, tt.edit))
			if err == nil {
				_, err = site.Check(r, c, true)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Check with wrong %s, algorithm %d = %v, want %q", tt.name, algorithm, err, tt.want)
			}
		}
		// The key of somebody else, and another algorithm than the key's.
		r, err := passkey.ParseUsed(d.Use(site, challenge, nil))
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
	r, err := passkey.ParseUsed(d.Use(site, challenge, func(p *passkeytest.Parts) { p.Flags = passkeytest.Present }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := site.Check(r, c, false); err != nil {
		t.Errorf("Check without verification = %v", err)
	}
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
	key := func(public any, algorithm int) func(*passkeytest.Parts) {
		return func(p *passkeytest.Parts) { p.Key = passkeytest.COSE(public, algorithm) }
	}
	for _, tt := range []struct {
		name string
		edit func(p *passkeytest.Parts)
		want string
	}{
		{"nothing", nil, ""},
		{"type", func(p *passkeytest.Parts) { p.Type = "webauthn.get" }, "ceremony type"},
		{"origin", func(p *passkeytest.Parts) { p.Origin = "https://evil.example" }, "origin"},
		{"embedded", func(p *passkeytest.Parts) { p.CrossOrigin = true }, "cross origin"},
		{"site", func(p *passkeytest.Parts) { p.Site = "evil.example" }, "RP Hash"},
		{"nobody there", func(p *passkeytest.Parts) { p.Flags &^= passkeytest.Present }, "presence"},
		{"copied but not to be copied", func(p *passkeytest.Parts) { p.Flags |= 1 << 4 }, "contradict"},
		{"no credential", func(p *passkeytest.Parts) { p.Flags &^= passkeytest.Credential }, "attestation response"},
		{"another id", func(p *passkeytest.Parts) { p.ID = []byte("other") }, "credential id"},
		{"an empty id", func(p *passkeytest.Parts) { p.Credential = nil }, "credential id"},
		{"a long id", func(p *passkeytest.Parts) { p.ID = make([]byte, 1024); p.Credential = p.ID }, "attestation response"},
		{"no key", func(p *passkeytest.Parts) { p.Key = map[int]any{} }, "not supported"},
		{"a key that is none", func(p *passkeytest.Parts) { p.Key = "key" }, "cbor"},
		{"more data", func(p *passkeytest.Parts) { p.Extra = []byte{0} }, "attestation response"},
		{"attestation", func(p *passkeytest.Parts) { p.Format = "unheard of" }, "unsupported"},
		{"algorithm", key(&p384.PublicKey, passkey.RS256), "Unsupported"},
		{"an algorithm that is not accepted", key(&p384.PublicKey, -35), "not supported"},
		{"curve", key(&p384.PublicKey, passkey.ES256), "curve"},
		{"point", func(p *passkeytest.Parts) {
			p.Key = map[int]any{1: 2, 3: passkey.ES256, -1: 1, -2: make([]byte, 32), -3: make([]byte, 32)}
		}, "not on curve"},
		{"a short RSA key", key(&short.PublicKey, passkey.RS256), "kind"},
		{"a long RSA key", func(p *passkeytest.Parts) {
			p.Key = map[int]any{1: 3, 3: passkey.RS256, -1: bytes.Repeat([]byte{255}, 513), -2: []byte{1, 0, 1}}
		}, "kind"},
	} {
		r, err := passkey.ParseMade(passkeytest.New(passkey.ES256).Make(site, challenge, "acct_1", tt.edit))
		if err == nil {
			_, err = site.New(r)
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("New with wrong %s = %v, want %q", tt.name, err, tt.want)
		}
	}
}

// Passkeys that were stored before the library came are used as before. The file has rows of the table and replies to
// the challenge, written by the code of that time.
func TestStoredBefore(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Row struct {
			Credential []byte
			PublicKey  []byte `json:"public_key"`
			Algorithm  int
			Counter    uint32
		}
		Reply struct{ ID, Client, Data, Signature, User string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	algorithms := []int{}
	for _, kept := range list {
		reply, err := json.Marshal(map[string]any{"id": kept.Reply.ID, "rawId": kept.Reply.ID, "type": "public-key", "response": map[string]any{
			"clientDataJSON": kept.Reply.Client, "authenticatorData": kept.Reply.Data, "signature": kept.Reply.Signature, "userHandle": kept.Reply.User,
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := passkey.ParseUsed(string(reply))
		if err != nil {
			t.Fatal(err)
		}
		c := passkey.Credential{ID: kept.Row.Credential, Key: kept.Row.PublicKey, Algorithm: kept.Row.Algorithm, Counter: kept.Row.Counter}
		if n, err := site.Check(r, &c, true); n != 8 || err != nil || r.User() != "acct_1" || r.Challenge() != challenge {
			t.Errorf("Check of a stored passkey of algorithm %d = %d, %v, want 8", c.Algorithm, n, err)
		}
		algorithms = append(algorithms, c.Algorithm)
	}
	if want := []int{passkey.ES256, passkey.EdDSA, passkey.RS256}; !slices.Equal(algorithms, want) {
		t.Errorf("the file has algorithms %v, want %v", algorithms, want)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("A", 17<<10)
	for _, text := range []string{
		"", "x", "[]", `{}`, `{"id":"!"}`, `{"id":"AA","rawId":"AA","type":"public-key"}`, `{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"="}}`,
		passkeytest.New(passkey.ES256).Use(site, challenge, func(p *passkeytest.Parts) { p.ID = nil }),
		passkeytest.New(passkey.ES256).Use(site, challenge, func(p *passkeytest.Parts) { p.User = long }),
		passkeytest.New(passkey.ES256).Use(site, challenge, nil) + "{}",
	} {
		if r, err := passkey.ParseUsed(text); err == nil {
			t.Errorf("ParseUsed(%.40q) = %+v, want an error", text, r)
		}
		if r, err := passkey.ParseMade(text); err == nil {
			t.Errorf("ParseMade(%.40q) = %+v, want an error", text, r)
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
