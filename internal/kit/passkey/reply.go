package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
)

// Reply is what the browser sends after a passkey was made or used. Nothing of it is to be believed before Site has
// checked it.
type Reply struct {
	credential, client, data, signature, key []byte
	user                                     string
	algorithm                                int
	said                                     clientData
	challenge                                string
}

// clientData is what the browser itself says: it is part of what is signed.
type clientData struct {
	Type, Challenge, Origin string
	CrossOrigin             bool
}

// Parse reads the text that the page's script sends: an object of JSON whose binary fields are in base64url.
func Parse(text string) (*Reply, error) {
	if len(text) > maxReply {
		return nil, errors.New("the reply is too long")
	}
	var sent struct {
		ID, Client, Data, Signature, User, Key string
		Algorithm                              int
	}
	if err := exact([]byte(text), map[string]any{
		"id": &sent.ID, "client": &sent.Client, "data": &sent.Data, "signature": &sent.Signature, "user": &sent.User, "key": &sent.Key, "algorithm": &sent.Algorithm,
	}); err != nil {
		return nil, err
	}
	r := &Reply{algorithm: sent.Algorithm}
	var user, challenge []byte
	for _, f := range []struct {
		to   *[]byte
		from string
	}{{&r.credential, sent.ID}, {&r.client, sent.Client}, {&r.data, sent.Data}, {&r.signature, sent.Signature}, {&r.key, sent.Key}, {&user, sent.User}} {
		var err error
		if *f.to, err = base64.RawURLEncoding.DecodeString(f.from); err != nil {
			return nil, err
		}
	}
	if n := len(r.credential); n == 0 || n > maxCredential {
		return nil, errors.New("the credential id is empty or too long")
	}
	if err := exact(r.client, map[string]any{"type": &r.said.Type, "challenge": &r.said.Challenge, "origin": &r.said.Origin, "crossOrigin": &r.said.CrossOrigin}); err != nil {
		return nil, err
	}
	challenge, err := base64.RawURLEncoding.DecodeString(r.said.Challenge)
	if err != nil {
		return nil, err
	}
	r.user, r.challenge = string(user), string(challenge)
	return r, nil
}

// exact reads members of a JSON object by their exact names. encoding/json would also take other spellings, and the last of
// several members with one name. Browsers may add members that are not known.
func exact(text []byte, members map[string]any) error {
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
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		name := key.(string) // the decoder accepts nothing else as a name
		if seen[name] {
			return errors.New("a member is given twice")
		}
		seen[name] = true
		if to := members[name]; to != nil {
			if err := json.Unmarshal(raw, to); err != nil {
				return err
			}
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than a JSON object")
	}
	return nil
}

// Challenge returns the challenge that the reply answers.
func (r *Reply) Challenge() string { return r.challenge }

// Credential returns the id of the credential.
func (r *Reply) Credential() []byte { return r.credential }

// User returns the user that the authenticator has for the passkey, or "" if it did not say.
func (r *Reply) User() string { return r.user }

// The flags of authenticator data.
const (
	userPresent    = 1 << 0
	userVerified   = 1 << 2
	mayBeCopied    = 1 << 3
	isCopied       = 1 << 4
	hasCredential  = 1 << 6
	hasExtensions  = 1 << 7
	authDataHead   = sha256.Size + 1 + 4
	credentialHead = 16 + 2 // the model of the authenticator, and the length of the id
)

// authData is what the authenticator says: it is the other part of what is signed.
type authData struct {
	site    [sha256.Size]byte // hash of Site.ID
	flags   byte
	counter uint32
	// credential is the id of a new passkey, or nil; rest is its key as the authenticator writes it, with extensions.
	credential, rest []byte
}

// parseAuthData reads authenticator data. Its fields have fixed places, up to the key of a new passkey.
func parseAuthData(b []byte) (*authData, error) {
	if len(b) < authDataHead {
		return nil, errors.New("the authenticator data is too short")
	}
	d := &authData{site: [sha256.Size]byte(b), flags: b[sha256.Size], counter: binary.BigEndian.Uint32(b[sha256.Size+1:])}
	b = b[authDataHead:]
	if d.flags&isCopied != 0 && d.flags&mayBeCopied == 0 {
		return nil, errors.New("the flags contradict each other")
	}
	if d.flags&hasCredential != 0 {
		if len(b) < credentialHead {
			return nil, errors.New("the credential is too short")
		}
		n := int(binary.BigEndian.Uint16(b[credentialHead-2:]))
		if b = b[credentialHead:]; n == 0 || n > maxCredential || len(b) <= n {
			return nil, errors.New("the credential is too short")
		}
		d.credential, d.rest = b[:n], b[n:]
		return d, nil
	}
	if (len(b) > 0) != (d.flags&hasExtensions != 0) {
		return nil, errors.New("the authenticator data has the wrong length")
	}
	return d, nil
}
