package passkey_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"testing"

	"sluice/internal/kit/passkey"
	"sluice/internal/kit/passkey/passkeytest"
)

// FuzzUsed feeds client data, authenticator data and signatures of any kind to the check. Nothing may panic, and nothing
// that the device did not sign may pass.
func FuzzUsed(f *testing.F) {
	d := passkeytest.New(passkey.ES256)
	first, err := passkey.ParseMade(d.Make(site, challenge, "acct_1", nil))
	if err != nil {
		f.Fatal(err)
	}
	c, err := site.New(first)
	if err != nil {
		f.Fatal(err)
	}
	var sent struct {
		Response struct{ ClientDataJSON, AuthenticatorData, Signature string }
	}
	if err := json.Unmarshal([]byte(d.Use(site, challenge, nil)), &sent); err != nil {
		f.Fatal(err)
	}
	part := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	client, data := part(sent.Response.ClientDataJSON), part(sent.Response.AuthenticatorData)
	f.Add(client, data, part(sent.Response.Signature))
	f.Add([]byte(`{"type":"webauthn.get","challenge":"AA","origin":"https://example.com"}`), data[:36], []byte{0})
	f.Fuzz(func(t *testing.T, says, tells, signs []byte) {
		encode := base64.RawURLEncoding.EncodeToString
		text, err := json.Marshal(map[string]any{"id": encode(d.ID), "rawId": encode(d.ID), "type": "public-key", "response": map[string]any{
			"clientDataJSON": encode(says), "authenticatorData": encode(tells), "signature": encode(signs),
		}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := passkey.ParseUsed(string(text))
		if err != nil {
			return
		}
		if _, err := site.Check(r, c, false); err == nil && (string(says) != string(client) || string(tells) != string(data)) {
			t.Errorf("Check passes what the device did not sign: %q, %x", says, tells)
		}
	})
}

// FuzzMade feeds attestation objects of any kind to New. The key that it returns can be read again.
func FuzzMade(f *testing.F) {
	f.Add(passkeytest.New(passkey.EdDSA).Make(site, challenge, "acct_1", nil))
	f.Add(passkeytest.New(passkey.RS256).Make(site, challenge, "acct_1", nil))
	f.Add(`{"id":"AA","rawId":"AA","type":"public-key","response":{"clientDataJSON":"e30","attestationObject":"oA"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := passkey.ParseMade(text)
		if err != nil {
			return
		}
		c, err := site.New(r)
		if err != nil {
			return
		}
		if n := len(c.ID); n == 0 || n > 1023 {
			t.Errorf("New of %q has an id of %d bytes", text, n)
		}
		if _, err := x509.ParsePKIXPublicKey(c.Key); err != nil {
			t.Errorf("New of %q has a key that cannot be read: %v", text, err)
		}
	})
}
