package passkey

import (
	"encoding/base64"
	"encoding/json"
	"testing"
)

// The browser's words are read by their exact names: what a script adds in another spelling is not what was signed for.
func TestClientDataNames(t *testing.T) {
	t.Parallel()
	parse := func(client string) (*Reply, error) {
		text, err := json.Marshal(map[string]any{"id": "AAAA", "client": base64.RawURLEncoding.EncodeToString([]byte(client))})
		if err != nil {
			t.Fatal(err)
		}
		return Parse(string(text))
	}
	const said = `{"type":"webauthn.get","challenge":"YWJj","origin":"https://a.example","crossOrigin":false`
	r, err := parse(said + `,"Origin":"https://b.example","TYPE":"other","Challenge":"ZGVm","crossorigin":true,"other_keys_can_be_added_here":1}`)
	if err != nil || r.said != (clientData{"webauthn.get", "YWJj", "https://a.example", false}) || r.Challenge() != "abc" {
		t.Errorf("Parse = %+v, %v, want what stands under the exact names", r, err)
	}
	for _, client := range []string{said + `,"origin":"https://b.example"}`, said + `,"or\u0069gin":"https://b.example"}`, `{"Type":"webauthn.get","challenge":1}`, said + `} {}`, `[]`, `null`, ``} {
		if r, err := parse(client); err == nil {
			t.Errorf("Parse of %s = %+v, want an error", client, r.said)
		}
	}
	if _, err := Parse(`{"ID":"AAAA","client":"e30"}`); err == nil {
		t.Error("a reply whose id is spelled ID was accepted")
	}
}
