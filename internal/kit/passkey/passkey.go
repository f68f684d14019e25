// Package passkey checks what a browser says about a passkey (WebAuthn), with Go's library alone.
//
// The page's script sends the public key in the form that Go reads (PKIX), so nothing here parses CBOR; the reasons
// are in docs/decisions/0024-passkeys-without-cbor.md. The caller makes the challenge, uses it up once and keeps the
// credential; see package signin.
package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
)

// The algorithms that keys may have, by their numbers in the registry of COSE.
const (
	ES256 = -7
	EdDSA = -8
	RS256 = -257
)

// Bounds of what is accepted, in bytes if not said otherwise.
const (
	maxReply      = 16 << 10
	maxCredential = 1023 // the specification's own
	maxKey        = 1 << 10
	minModulus    = 2048 // bits
	maxModulus    = 4096 // bits
)

// Site is the service that passkeys are made for.
type Site struct {
	// Origin is what the browser must name: scheme, host and port.
	Origin string
	// ID is the host, which authenticators bind a passkey to.
	ID string
}

// SiteAt returns the site of an origin. It reports false for a host that is an IP address, because browsers have no
// passkeys there. A loopback address stands for localhost, where they do.
func SiteAt(origin string) (Site, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" {
		return Site{}, false
	}
	host := strings.ToLower(u.Hostname())
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsLoopback() {
			return Site{}, false
		}
		host = "localhost"
	}
	at := u.Scheme + "://" + host
	// Browsers leave the port of the scheme out.
	if port := u.Port(); port != "" && (u.Scheme != "https" || port != "443") && (u.Scheme != "http" || port != "80") {
		at += ":" + port
	}
	return Site{Origin: at, ID: host}, true
}

// Credential is what is kept of a passkey.
type Credential struct {
	ID        []byte // chosen by the authenticator
	Key       []byte // PKIX, DER
	Algorithm int
	// Counter is what the authenticator counted at the last use. Many do not count and always say 0.
	Counter uint32
}

// New returns the credential of a passkey that was just made. Nobody vouches for it: attestation is not asked for.
func (s Site) New(r *Reply) (*Credential, error) {
	d, err := s.check(r, "webauthn.create", false)
	if err != nil {
		return nil, err
	}
	if d.credential == nil {
		return nil, errors.New("the authenticator data has no credential")
	}
	if !bytes.Equal(d.credential, r.credential) {
		return nil, errors.New("the authenticator data has another credential id")
	}
	parts, err := parseKey(r.key, r.algorithm)
	if err != nil {
		return nil, err
	}
	// The authenticator's own form of the key is not parsed, but it must hold the same numbers.
	for _, part := range parts {
		if !bytes.Contains(d.rest, part) {
			return nil, errors.New("the authenticator data has another key")
		}
	}
	return &Credential{ID: r.credential, Key: r.key, Algorithm: r.algorithm, Counter: d.counter}, nil
}

// Check checks the use of a passkey and returns the counter that it came with. With verified, the authenticator must
// have verified its user (by a PIN or a finger, for example) and not only that there is one.
func (s Site) Check(r *Reply, c *Credential, verified bool) (counter uint32, err error) {
	if !bytes.Equal(r.credential, c.ID) {
		return 0, errors.New("the credential is another one")
	}
	d, err := s.check(r, "webauthn.get", verified)
	if err != nil {
		return 0, err
	}
	if d.credential != nil {
		return 0, errors.New("the authenticator data has a new credential")
	}
	key, err := x509.ParsePKIXPublicKey(c.Key)
	if err != nil {
		return 0, err
	}
	client := sha256.Sum256(r.client)
	signed := append(append(make([]byte, 0, len(r.data)+len(client)), r.data...), client[:]...)
	digest := sha256.Sum256(signed)
	ok := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		ok = c.Algorithm == ES256 && ecdsa.VerifyASN1(key, digest[:], r.signature)
	case *rsa.PublicKey:
		ok = c.Algorithm == RS256 && rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], r.signature) == nil
	case ed25519.PublicKey:
		ok = c.Algorithm == EdDSA && ed25519.Verify(key, signed, r.signature)
	}
	if !ok {
		return 0, errors.New("the signature is wrong")
	}
	return d.counter, nil
}

// check checks what both kinds of replies have in common.
func (s Site) check(r *Reply, kind string, verified bool) (*authData, error) {
	switch {
	case r.said.Type != kind:
		return nil, errors.New("the client data is of another type")
	case r.said.Origin != s.Origin:
		return nil, errors.New("the origin is another one")
	case r.said.CrossOrigin:
		return nil, errors.New("another site has embedded the page")
	}
	d, err := parseAuthData(r.data)
	if err != nil {
		return nil, err
	}
	switch {
	case d.site != sha256.Sum256([]byte(s.ID)):
		return nil, errors.New("the passkey belongs to another site")
	case d.flags&userPresent == 0:
		return nil, errors.New("no user was present")
	case verified && d.flags&userVerified == 0:
		return nil, errors.New("the user was not verified")
	}
	return d, nil
}

// parseKey checks a public key and returns the numbers that it consists of.
func parseKey(der []byte, algorithm int) ([][]byte, error) {
	if len(der) > maxKey {
		return nil, errors.New("the key is too long")
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if point, err := key.Bytes(); err == nil && algorithm == ES256 && key.Curve == elliptic.P256() {
			return [][]byte{point[1:33], point[33:]}, nil
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); algorithm == RS256 && bits >= minModulus && bits <= maxModulus {
			return [][]byte{key.N.Bytes()}, nil
		}
	case ed25519.PublicKey:
		if algorithm == EdDSA {
			return [][]byte{key}, nil
		}
	}
	return nil, errors.New("the key is of a kind that is not accepted")
}
