package passkey_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"sluice/internal/kit/passkey"
	"sluice/internal/kit/passkey/passkeytest"
)

// FuzzReply feeds client data and authenticator data of any kind to both checks. Nothing may panic, and nothing that the
// device did not sign may pass.
func FuzzReply(f *testing.F) {
	d := passkeytest.New(passkey.ES256)
	first, err := passkey.Parse(d.Make(site, challenge, "acct_1", nil))
	if err != nil {
		f.Fatal(err)
	}
	c, err := site.New(first)
	if err != nil {
		f.Fatal(err)
	}
	parts := func(text string) (client, data, signature []byte) {
		var sent map[string]any
		if err := json.Unmarshal([]byte(text), &sent); err != nil {
			f.Fatal(err)
		}
		for name, to := range map[string]*[]byte{"client": &client, "data": &data, "signature": &signature} {
			part, _ := sent[name].(string)
			*to, _ = base64.RawURLEncoding.DecodeString(part)
		}
		return client, data, signature
	}
	client, data, signature := parts(d.Use(site, challenge, nil))
	f.Add(client, data, signature)
	newClient, newData, _ := parts(d.Make(site, challenge, "acct_1", nil))
	f.Add(newClient, newData, []byte{})
	f.Add([]byte(`{"type":"webauthn.get","challenge":"AA","origin":"https://example.com"}`), data[:36], []byte{0})
	f.Fuzz(func(t *testing.T, says, tells, signs []byte) {
		encode := base64.RawURLEncoding.EncodeToString
		text, err := json.Marshal(map[string]any{"id": encode(d.ID), "client": encode(says), "data": encode(tells), "signature": encode(signs), "key": encode(c.Key), "algorithm": c.Algorithm})
		if err != nil {
			t.Fatal(err)
		}
		r, err := passkey.Parse(string(text))
		if err != nil {
			return
		}
		if made, err := site.New(r); err == nil && string(made.ID) != string(d.ID) {
			t.Errorf("New = %+v, want the device's id", made)
		}
		if _, err := site.Check(r, c, false); err == nil && (string(says) != string(client) || string(tells) != string(data)) {
			t.Errorf("Check passes what the device did not sign: %q, %x", says, tells)
		}
	})
}

// FuzzParse feeds text of any kind to Parse.
func FuzzParse(f *testing.F) {
	f.Add(passkeytest.New(passkey.EdDSA).Make(site, challenge, "acct_1", nil))
	f.Add(`{"id":"AA","client":"e30","data":"AA"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := passkey.Parse(text)
		if err != nil {
			return
		}
		if n := len(r.Credential()); n == 0 || n > 1023 {
			t.Errorf("Parse(%q) has an id of %d bytes", text, n)
		}
	})
}
