// Package passkeytest has an authenticator in software, which makes and uses passkeys as a browser with a device does.
//
// Edit changes a reply before it is signed, so that tests can try everything that a device or a browser may get wrong.
package passkeytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"sluice/internal/kit/passkey"
)

// The flags of authenticator data.
const (
	Present    = 1 << 0
	Verified   = 1 << 2
	Credential = 1 << 6
)

// Device is an authenticator with one passkey.
type Device struct {
	ID        []byte
	Algorithm int
	User      string
	Counter   uint32 // what it says next; 0: it does not count

	signer crypto.Signer
}

// Parts are the parts of a reply, before they are signed and encoded.
type Parts struct {
	Type, Challenge, Origin, Site string
	CrossOrigin                   bool
	Flags                         byte
	Counter                       uint32
	Credential                    []byte // the id in the authenticator data
	ID                            []byte // the id beside it
	User                          string
	Key                           any    // a COSE key, in the authenticator data
	Format                        string // of the attestation; empty: the passkey is used, not made
	Extra                         []byte // added to the authenticator data
	Spoil                         func(data, signature []byte)
}

// New returns a device with a new key of an algorithm. It panics if there is none.
func New(algorithm int) *Device {
	d := &Device{ID: make([]byte, 32), Algorithm: algorithm}
	rand.Read(d.ID)
	var err error
	switch algorithm {
	case passkey.ES256:
		d.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case passkey.RS256:
		d.signer, err = rsa.GenerateKey(rand.Reader, 2048)
	case passkey.EdDSA:
		_, d.signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		panic("no such algorithm")
	}
	if err != nil {
		panic(err)
	}
	return d
}

// Make answers a challenge with the new passkey. edit may be nil.
func (d *Device) Make(site passkey.Site, challenge, user string, edit func(*Parts)) string {
	d.User = user
	p := &Parts{
		Type: "webauthn.create", Challenge: challenge, Origin: site.Origin, Site: site.ID, Flags: Present | Verified | Credential,
		Counter: d.Counter, Credential: d.ID, ID: d.ID, Key: COSE(d.signer.Public(), d.Algorithm), Format: "none",
	}
	return d.send(p, edit)
}

// Use answers a challenge with a signature. edit may be nil.
func (d *Device) Use(site passkey.Site, challenge string, edit func(*Parts)) string {
	if d.Counter > 0 {
		d.Counter++
	}
	p := &Parts{Type: "webauthn.get", Challenge: challenge, Origin: site.Origin, Site: site.ID, Flags: Present | Verified, Counter: d.Counter, ID: d.ID, User: d.User}
	return d.send(p, edit)
}

func (d *Device) send(p *Parts, edit func(*Parts)) string {
	if edit != nil {
		edit(p)
	}
	encode := base64.RawURLEncoding.EncodeToString
	client, err := json.Marshal(map[string]any{"type": p.Type, "challenge": encode([]byte(p.Challenge)), "origin": p.Origin, "crossOrigin": p.CrossOrigin})
	if err != nil {
		panic(err)
	}
	site := sha256.Sum256([]byte(p.Site))
	data := append(site[:], p.Flags)
	data = binary.BigEndian.AppendUint32(data, p.Counter)
	if p.Flags&Credential != 0 {
		data = append(data, make([]byte, 16)...)
		data = binary.BigEndian.AppendUint16(data, uint16(len(p.Credential)))
		data = append(data, p.Credential...)
		data = append(data, marshal(p.Key)...)
	}
	data = append(data, p.Extra...)
	sum := sha256.Sum256(client)
	signature := d.sign(append(append([]byte{}, data...), sum[:]...))
	if p.Spoil != nil {
		p.Spoil(data, signature)
	}
	response := map[string]any{"clientDataJSON": encode(client)}
	if p.Format != "" {
		response["attestationObject"] = encode(marshal(map[string]any{"fmt": p.Format, "attStmt": map[string]any{}, "authData": data}))
	} else {
		response["authenticatorData"], response["signature"], response["userHandle"] = encode(data), encode(signature), encode([]byte(p.User))
	}
	reply := map[string]any{"id": encode(p.ID), "rawId": encode(p.ID), "type": "public-key", "response": response}
	text, err := json.Marshal(reply)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (d *Device) sign(message []byte) []byte {
	how, digest := crypto.Hash(0), message
	if d.Algorithm != passkey.EdDSA {
		how = crypto.SHA256
		sum := sha256.Sum256(message)
		digest = sum[:]
	}
	signature, err := d.signer.Sign(rand.Reader, digest, how)
	if err != nil {
		panic(err)
	}
	return signature
}

// COSE returns a public key in the form that authenticators use.
func COSE(public crypto.PublicKey, algorithm int) any {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		half := len(point) / 2
		curve := map[elliptic.Curve]int{elliptic.P256(): 1, elliptic.P384(): 2}[key.Curve]
		return map[int]any{1: 2, 3: algorithm, -1: curve, -2: point[1 : 1+half], -3: point[1+half:]}
	case *rsa.PublicKey:
		return map[int]any{1: 3, 3: algorithm, -1: key.N.Bytes(), -2: []byte{1, 0, 1}}
	case ed25519.PublicKey:
		return map[int]any{1: 1, 3: algorithm, -1: 6, -2: []byte(key)}
	}
	panic("no such key")
}

func marshal(v any) []byte {
	b, err := webauthncbor.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
