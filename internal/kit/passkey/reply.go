package passkey

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
)

// maxReply is how long a reply may be, in bytes.
const maxReply = 16 << 10

// Made is what the browser sends after a passkey was made. Nothing of it is to be believed before Site.New has checked it.
type Made struct {
	reply     *protocol.ParsedCredentialCreationData
	challenge string
}

// ParseMade reads the text that the page's script sends after a passkey was made.
func ParseMade(text string) (*Made, error) {
	if err := checkReply(text); err != nil {
		return nil, err
	}
	r, err := protocol.ParseCredentialCreationResponseBytes([]byte(text))
	if err != nil {
		return nil, explained(err)
	}
	challenge, err := challengeOf(r.Raw.AttestationResponse.ClientDataJSON, &r.Response.CollectedClientData)
	if err != nil {
		return nil, err
	}
	return &Made{r, challenge}, nil
}

// Challenge returns the challenge that the reply answers.
func (m *Made) Challenge() string { return m.challenge }

// Used is what the browser sends after a passkey was used. Nothing of it is to be believed before Site.Check has checked
// it.
type Used struct {
	reply     *protocol.ParsedCredentialAssertionData
	challenge string
}

// ParseUsed reads the text that the page's script sends after a passkey was used.
func ParseUsed(text string) (*Used, error) {
	if err := checkReply(text); err != nil {
		return nil, err
	}
	r, err := protocol.ParseCredentialRequestResponseBytes([]byte(text))
	if err != nil {
		return nil, explained(err)
	}
	challenge, err := challengeOf(r.Raw.AssertionResponse.ClientDataJSON, &r.Response.CollectedClientData)
	if err != nil {
		return nil, err
	}
	return &Used{r, challenge}, nil
}

// Challenge returns the challenge that the reply answers.
func (u *Used) Challenge() string { return u.challenge }

// Credential returns the id of the credential.
func (u *Used) Credential() []byte { return u.reply.RawID }

// User returns the user that the authenticator has for the passkey, or "" if it did not say.
func (u *Used) User() string { return string(u.reply.Response.UserHandle) }

// checkReply checks the size of a reply and the names of its members.
func checkReply(text string) error {
	if len(text) > maxReply {
		return errors.New("the reply is too long")
	}
	return checkNames([]byte(text), "id", "rawId", "type", "response")
}

// challengeOf returns the challenge in client data: what the browser itself says, which is part of what is signed.
// It names the ceremony that the reply belongs to.
func challengeOf(text []byte, said *protocol.CollectedClientData) (string, error) {
	if err := checkNames(text, "type", "challenge", "origin", "crossOrigin", "topOrigin", "tokenBinding"); err != nil {
		return "", err
	}
	challenge, err := base64.RawURLEncoding.DecodeString(said.Challenge)
	return string(challenge), err
}

// checkNames refuses a JSON object that has a member twice, or one of the known members in another spelling. The library
// reads with encoding/json, which would take "Origin" for "origin", and the last of several. Browsers may add members
// that are not known.
func checkNames(text []byte, known ...string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("not a JSON object"), err)
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name := key.(string) // the decoder accepts nothing else as a name
		if seen[name] {
			return fmt.Errorf("member %q is given twice", name)
		}
		seen[name] = true
		for _, k := range known {
			if name != k && strings.EqualFold(name, k) {
				return fmt.Errorf("member %q is %q in another spelling", name, k)
			}
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the form that binary values have in JSON.
func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
