package receipt

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
)

const (
	// published is how long a new key is known before it signs: every node has read it by then, and publishes it.
	published = 2 * time.Minute
	// readEvery is how often a node reads the keys.
	readEvery = 30 * time.Second
)

// Key is a key that receipts are signed with.
type Key struct {
	ID        string
	Public    ed25519.PublicKey
	Private   ed25519.PrivateKey // nil: it signs no more
	Damaged   bool               // the private half is stored and cannot be read, so Private is nil
	CreatedAt time.Time
	From      time.Time // when it begins to sign
}

// encoding is that of JWS: base64url without padding.
var encoding = base64.RawURLEncoding.Strict()

// idOf returns the id of a key: its thumbprint by RFC 7638, so that an id belongs to one key only.
func idOf(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + encoding.EncodeToString(public) + `"}`))
	return encoding.EncodeToString(sum[:])
}

// newKey makes a key that begins to sign at a time.
func newKey(now, from time.Time) (Key, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("make a key for receipts: %w", err)
	}
	return Key{ID: idOf(public), Public: public, Private: private, CreatedAt: now, From: from}, nil
}

// KeyStore keeps the keys, the private halves sealed.
type KeyStore interface {
	// ReceiptKeys returns all keys, oldest first.
	ReceiptKeys(ctx context.Context) ([]Key, error)
	// AddReceiptKey stores a key, and deletes the private halves of the keys named in retired. If first is set, it does nothing
	// if there is a key.
	AddReceiptKey(ctx context.Context, k Key, first bool, retired []string) error
}

// Ring has the keys of an installation. It is safe for concurrent use.
type Ring struct {
	store KeyStore
	mu    sync.Mutex // held while the keys are read
	keys  atomic.Pointer[keys]
}

// keys are what a ring has read.
type keys struct {
	all    []Key
	signer atomic.Pointer[signer] // the key that signs, with what is the same for all receipts
	set    []byte                 // the public keys as a JWK set
}

// signer is a key with the encoded header of its receipts.
type signer struct {
	key    *Key
	header string
	until  time.Time // when a later key begins to sign; zero: there is none
}

// NewRing returns a ring. It has no keys until Open or Read.
func NewRing(store KeyStore) *Ring { return &Ring{store: store} }

// Open reads the keys. It makes the first one of an installation.
func (r *Ring) Open(ctx context.Context) error {
	if err := r.Read(ctx); err != nil {
		return err
	}
	if r.current(time.Now()) != nil {
		return nil
	}
	// There is none, or the secret of the installation was lost, or the private half is damaged. What is signed by another key from
	// now on is worth as much: receipts of the old one stay valid.
	now := time.Now()
	k, err := newKey(now, now)
	if err != nil {
		return err
	}
	if err := r.store.AddReceiptKey(ctx, k, len(r.keys.Load().all) == 0, nil); err != nil {
		return err
	}
	return r.Read(ctx)
}

// Read reads the keys again.
func (r *Ring) Read(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, err := r.store.ReceiptKeys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys of receipts: %w", err)
	}
	set, err := json.Marshal(setOf(all))
	if err != nil {
		return err
	}
	r.keys.Store(&keys{all: all, set: set})
	return nil
}

// Run follows what other nodes change until ctx ends.
func (r *Ring) Run(ctx context.Context, log *slog.Logger) {
	for range pace.Every(ctx, readEvery) {
		if err := r.Read(ctx); err != nil && ctx.Err() == nil {
			log.Warn("the keys of receipts could not be read", "error", err.Error())
		}
	}
}

// Rotate makes a new key, which signs after a short while. The one that signs now keeps its private half until the next
// rotation; those before it lose theirs. All public keys stay.
func (r *Ring) Rotate(ctx context.Context) (Key, error) {
	if err := r.Open(ctx); err != nil {
		return Key{}, err
	}
	now := time.Now()
	k, err := newKey(now, now.Add(published))
	if err != nil {
		return Key{}, err
	}
	var retired []string
	current := r.current(now).key
	for _, old := range r.keys.Load().all {
		if old.Private != nil && old.From.Before(current.From) {
			retired = append(retired, old.ID)
		}
	}
	if err := r.store.AddReceiptKey(ctx, k, false, retired); err != nil {
		return Key{}, err
	}
	return k, r.Read(ctx)
}

// All returns the keys, oldest first, and the id of the one that signs.
func (r *Ring) All() (all []Key, current string) {
	if s := r.current(time.Now()); s != nil {
		current = s.key.ID
	}
	if k := r.keys.Load(); k != nil {
		all = slices.Clone(k.all)
	}
	return all, current
}

// Set returns the public keys as a JWK set. The caller must not modify it.
func (r *Ring) Set() []byte {
	if k := r.keys.Load(); k != nil {
		return k.set
	}
	return []byte(`{"keys":[]}`)
}

// current returns the key that signs at a time; nil if there is none.
func (r *Ring) current(now time.Time) *signer {
	k := r.keys.Load()
	if k == nil {
		return nil
	}
	if s := k.signer.Load(); s != nil && (s.until.IsZero() || now.Before(s.until)) {
		return s
	}
	var s *signer
	for i := range k.all {
		switch key := &k.all[i]; {
		case key.Private == nil:
		case s == nil || !key.From.After(now):
			s = &signer{key: key}
		case s.until.IsZero():
			s.until = key.From
		}
	}
	if s != nil {
		s.header = encoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"`+s.key.ID+`","typ":"sluice-receipt"}`)) + "."
		k.signer.Store(s)
	}
	return s
}

var errNoKey = errors.New("there is no key to sign receipts with")

// Sign returns a statement as a JWS in compact form.
func (r *Ring) Sign(statement []byte) (string, error) {
	s := r.current(time.Now())
	if s == nil {
		return "", errNoKey
	}
	size := len(s.header) + encoding.EncodedLen(len(statement))
	b := make([]byte, 0, size+1+encoding.EncodedLen(ed25519.SignatureSize))
	b = encoding.AppendEncode(append(b, s.header...), statement)
	signature := ed25519.Sign(s.key.Private, b)
	return string(encoding.AppendEncode(append(b, '.'), signature)), nil
}

// jwk is a public key as JSON.
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
}

// jwkSet is a list of public keys as JSON.
type jwkSet struct {
	Keys []jwk `json:"keys"`
}

// setOf returns the public halves of keys.
func setOf(all []Key) jwkSet {
	set := jwkSet{Keys: []jwk{}}
	for _, k := range all {
		set.Keys = append(set.Keys, jwk{"OKP", "Ed25519", encoding.EncodeToString(k.Public), k.ID, "sig", "EdDSA"})
	}
	return set
}

// SignAll signs the statements of settlements that go into the database. It reads the keys if that has not been done.
func (r *Ring) SignAll(ctx context.Context, batch []usage.Settlement) error {
	for i := range batch {
		to := batch[i].Receipt
		if to == nil || to.Signed != "" {
			continue
		}
		if r.keys.Load() == nil {
			if err := r.Open(ctx); err != nil {
				return err
			}
		}
		err := locate(to)
		if err == nil {
			to.Signed, err = r.Sign(to.Statement)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
