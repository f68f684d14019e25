// Package passkey checks what a browser says about a passkey (WebAuthn), with go-webauthn.
//
// The caller makes the challenge, uses it up once and keeps the credential; see package signin. A stored key is PKIX, as
// the first version wrote it; the library takes the form that authenticators use (COSE), so key.go converts. The reasons
// are in docs/decisions/0030-passkeys-with-a-library.md.
package passkey

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// The algorithms that keys may have, by their numbers in the registry of COSE.
const (
	ES256 = int(webauthncose.AlgES256)
	EdDSA = int(webauthncose.AlgEdDSA)
	RS256 = int(webauthncose.AlgRS256)
)

// accepted has the same algorithms for the library.
var accepted = []protocol.CredentialParameter{
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgRS256},
}

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
func (s Site) New(m *Made) (*Credential, error) {
	const embedded, verified, present = false, false, true
	_, err := m.reply.Verify(encode(m.challenge), s.ID, []string{s.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode,
		embedded, verified, present, nil, accepted, protocol.AttestationPolicy{}, protocol.SignaturePolicy{})
	if err != nil {
		return nil, explained(err)
	}
	data := &m.reply.Response.AttestationObject.AuthData
	if err := checkFlags(data.Flags); err != nil {
		return nil, err
	}
	key, algorithm, err := toPKIX(data.AttData.CredentialPublicKey)
	if err != nil {
		return nil, explained(err)
	}
	return &Credential{ID: m.reply.RawID, Key: key, Algorithm: algorithm, Counter: data.Counter}, nil
}

// Check checks the use of a passkey and returns the counter that it came with. With verified, the authenticator must
// have verified its user (by a PIN or a finger, for example) and not only that there is one.
func (s Site) Check(u *Used, c *Credential, verified bool) (counter uint32, err error) {
	if !bytes.Equal(u.reply.RawID, c.ID) {
		return 0, errors.New("the credential is another one")
	}
	data := &u.reply.Response.AuthenticatorData
	if data.Flags.HasAttestedCredentialData() {
		return 0, errors.New("the authenticator data has a new credential")
	}
	if err := checkFlags(data.Flags); err != nil {
		return 0, err
	}
	key, err := toCOSE(c.Key, c.Algorithm)
	if err != nil {
		return 0, err
	}
	const noApp, embedded, present = "", false, true
	if err := u.reply.Verify(encode(u.challenge), s.ID, noApp, []string{s.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode,
		embedded, verified, present, key, protocol.SignaturePolicy{}); err != nil {
		return 0, explained(err)
	}
	return data.Counter, nil
}

// checkFlags refuses a passkey that is copied but must not be copied.
func checkFlags(f protocol.AuthenticatorFlags) error {
	if f.HasBackupState() && !f.HasBackupEligible() {
		return errors.New("the flags contradict each other")
	}
	return nil
}

// explained adds to an error what the library says to developers, which its text leaves out.
func explained(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && e.DevInfo != "" {
		return fmt.Errorf("%w: %s", err, e.DevInfo)
	}
	return err
}
