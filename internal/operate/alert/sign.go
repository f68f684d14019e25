package alert

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Secret is the key that signs the messages to an endpoint, as its owner gets it: whsec_ and base64. It never prints
// itself.
type Secret string

// The prefix and the size are those of the Standard Webhooks specification.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// NewSecret returns a random secret.
func NewSecret() Secret {
	var raw [secretBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return Secret(secretPrefix + base64.StdEncoding.EncodeToString(raw[:]))
}

// Reveal returns the secret itself, to be shown once or stored sealed.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string { return "alert.Secret(hidden)" }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// key returns the bytes that sign.
func (s Secret) key() ([]byte, error) {
	text, ok := strings.CutPrefix(string(s), secretPrefix)
	if !ok {
		return nil, errors.New("a secret begins with " + secretPrefix)
	}
	return base64.StdEncoding.DecodeString(text)
}

// sign sets the headers of a message that is sent now: its id, the time, and the signature of both and the body.
func (s Secret) sign(h http.Header, id string, now time.Time, body string) error {
	key, err := s.key()
	if err != nil {
		return err
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + at + "." + body)) // never fails
	// The specification writes these names in lower case; HTTP does not tell the difference.
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}
