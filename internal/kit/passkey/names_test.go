package passkey

import (
	"encoding/base64"
	"fmt"
	"testing"
)

// The browser's words are read by their exact names: encoding/json would take another spelling, or the last of two.
func TestClientDataNames(t *testing.T) {
	t.Parallel()
	parse := func(client string) (*Used, error) {
		data := make([]byte, 37)
		return ParseUsed(fmt.Sprintf(`{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":"AA"}}`,
			base64.RawURLEncoding.EncodeToString([]byte(client)), base64.RawURLEncoding.EncodeToString(data)))
	}
	const said = `{"type":"webauthn.get","challenge":"YWJj","origin":"https://a.example","crossOrigin":false`
	r, err := parse(said + `,"other_keys_can_be_added_here":1}`)
	if err != nil || r.Challenge() != "abc" || r.reply.Response.CollectedClientData.Origin != "https://a.example" {
		t.Errorf("ParseUsed = %+v, %v, want what stands under the exact names", r, err)
	}
	for _, more := range []string{
		`,"Origin":"https://b.example"}`, `,"TYPE":"other"}`, `,"Challenge":"ZGVm"}`, `,"crossorigin":true}`, `,"cro\u017f\u017fOrigin":true}`,
		`,"origin":"https://b.example"}`, `,"or\u0069gin":"https://b.example"}`, `} {}`,
	} {
		if r, err := parse(said + more); err == nil {
			t.Errorf("ParseUsed of client data with %s = %+v, want an error", more, r.reply.Response.CollectedClientData)
		}
	}
	for _, client := range []string{`{"Type":"webauthn.get","challenge":"YWJj"}`, `{"type":"webauthn.get","challenge":1}`, `[]`, `null`, ``} {
		if _, err := parse(client); err == nil {
			t.Errorf("ParseUsed of client data %s passes", client)
		}
	}
	if _, err := ParseUsed(`{"ID":"AAAA","rawId":"AAAA","type":"public-key","response":{"clientDataJSON":"e30"}}`); err == nil {
		t.Error("a reply whose id is spelled ID was accepted")
	}
}
