package receipt

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is what is wrong with a receipt, in a word.
type Problem string

const (
	Damaged   Problem = "damaged"       // the signature does not fit the statement: one of them was changed
	WrongKey  Problem = "wrong_key"     // it is signed with a key that was not published
	Missing   Problem = "missing_link"  // receipts of a chain are missing, or do not follow one another
	OtherBody Problem = "other_body"    // it is the receipt of another request or reply
	OtherRoot Problem = "other_root"    // the receipts of a month are not those of the root
	Unread    Problem = "not_a_receipt" // it has another form, or a format of a later version
)

// Fault is a problem of a receipt.
type Fault struct {
	Problem Problem
	Message string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// faulty returns a fault.
func faulty(p Problem, format string, args ...any) *Fault {
	return &Fault{p, fmt.Sprintf(format, args...)}
}

// Set are public keys by their ids.
type Set map[string]ed25519.PublicKey

// ParseSet reads a JWK set. Keys that receipts are not signed with are left out.
func ParseSet(raw []byte) (Set, error) {
	var in jwkSet
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	set := Set{}
	for _, k := range in.Keys {
		x, err := encoding.DecodeString(k.X)
		if k.Type == "OKP" && k.Curve == "Ed25519" && err == nil && len(x) == ed25519.PublicKeySize {
			set[k.ID] = x
		}
	}
	if len(set) == 0 {
		return nil, errors.New("read the keys: there is no Ed25519 key; give the reply of GET /.well-known/sluice-receipts.json")
	}
	return set, nil
}

// Receipt is a receipt whose signature is right.
type Receipt struct {
	Claims
	KeyID string
	Hash  string // of the statement
}

// Check checks the signature of a receipt.
func (s Set) Check(signed string) (*Receipt, error) {
	parts := strings.Split(signed, ".")
	if len(parts) != 3 {
		return nil, faulty(Damaged, "the receipt is damaged: it has %d parts instead of 3", len(parts))
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = encoding.DecodeString(part); err != nil {
			return nil, faulty(Damaged, "the receipt is damaged: part %d is not base64url", i+1)
		}
	}
	var header struct {
		Alg  string `json:"alg"`
		Key  string `json:"kid"`
		Type string `json:"typ"`
	}
	if err := json.Unmarshal(raw[0], &header); err != nil {
		return nil, faulty(Damaged, "the receipt is damaged: its header is not JSON")
	}
	if header.Alg != "EdDSA" || header.Type != "sluice-receipt" {
		return nil, faulty(Unread, "this is a JWS with alg %q and typ %q, not a receipt", header.Alg, header.Type)
	}
	public, known := s[header.Key]
	if !known {
		return nil, faulty(WrongKey, "the receipt is signed with the key %q, which is not among the published ones; fetch them again from the operator, and if it is still missing, the operator did not sign this", header.Key)
	}
	if !ed25519.Verify(public, []byte(parts[0]+"."+parts[1]), raw[2]) {
		return nil, faulty(Damaged, "the signature does not fit: the receipt was changed after it was signed, or was not signed with the key %q", header.Key)
	}
	c, err := Read(raw[1])
	if err != nil {
		return nil, faulty(Unread, "%s", err)
	}
	return &Receipt{Claims: *c, KeyID: header.Key, Hash: Hash(raw[1])}, nil
}

// Find returns the receipts in a text: one a line, the JSON of GET /v1/receipts, the headers of a reply, or a stream.
func Find(text []byte) (list []string) {
	words := bytes.FieldsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"',;<>{}[]`, r) })
	for _, w := range words {
		if bytes.HasPrefix(w, []byte("eyJ")) && bytes.Count(w, []byte(".")) == 2 {
			list = append(list, string(w))
		}
	}
	return list
}

// CheckRequest compares the body of a request with the receipt.
func (r *Receipt) CheckRequest(body []byte) error {
	if sum := Hash(body); sum != r.Request {
		return faulty(OtherBody, "the receipt is of another request: it has the SHA-256 %s, and the file %s", r.Request, sum)
	}
	return nil
}

// CheckReply compares the body of a reply with the receipt. The body of a stream may end with the comment that has the receipt,
// and may have other comments and the numbers of a stream that can be resumed.
func (r *Receipt) CheckReply(body []byte) error {
	if at := bytes.Index(body, []byte("\n"+Comment)); at >= 0 {
		body = body[:at+1]
	}
	sum := Hash(body)
	stream := r.Door != "videos" && !bytes.HasPrefix(body, []byte("{"))
	if sum != r.Reply && (!stream || Hash(events(body)) != r.Reply) {
		return faulty(OtherBody, "the receipt is of another reply: it has the SHA-256 %s, and the file %s", cmp.Or(r.Reply, "of none"), sum)
	}
	return nil
}

// events returns a stream without its comments and the numbers of its events.
func events(stream []byte) []byte {
	var b []byte
	for line := range bytes.Lines(stream) {
		if !bytes.HasPrefix(line, []byte("id: ")) && !bytes.HasPrefix(line, []byte(":")) {
			b = append(b, line...)
		}
	}
	return b
}

// Chain is the end of a chain.
type Chain struct {
	Chain string `json:"chain"`
	N     int64  `json:"receipts"`
	Hash  string `json:"head"`
}

// Root returns the root of the chains of an account in a month.
func Root(chains []Chain) string {
	sorted := slices.SortedFunc(slices.Values(chains), func(a, b Chain) int { return strings.Compare(a.Chain, b.Chain) })
	sum := sha256.New()
	for _, c := range sorted {
		fmt.Fprintf(sum, "%s %d %s\n", c.Chain, c.N, c.Hash)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// CheckChains checks that receipts follow one another, and returns the ends of their chains. With whole set, each chain must be
// there from its first receipt. All must be of one account and month if whole is set.
func CheckChains(list []*Receipt, whole bool) ([]Chain, error) {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b *Receipt) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Month, b.Month), strings.Compare(a.Chain, b.Chain), cmp.Compare(a.N, b.N))
	})
	var ends []Chain
	var problems []error
	for i, r := range sorted {
		var last *Receipt // of the same chain
		if i > 0 {
			last = sorted[i-1]
			if whole && (last.Account != r.Account || last.Month != r.Month) {
				return nil, faulty(OtherRoot, "the receipts are of several accounts or months; a root is that of one account and month")
			}
			if last.Account != r.Account || last.Month != r.Month || last.Chain != r.Chain {
				last = nil
			}
		}
		if last == nil {
			ends = append(ends, Chain{Chain: r.Chain})
		}
		if err := follows(last, r, whole); err != nil {
			problems = append(problems, err)
		}
		ends[len(ends)-1].N, ends[len(ends)-1].Hash = r.N, r.Hash
	}
	return ends, errors.Join(problems...)
}

// follows checks that a receipt follows the last one of its chain, which is nil if it is the first that we have.
func follows(last, r *Receipt, whole bool) error {
	switch {
	case last == nil && whole && r.N > 1:
		return faulty(Missing, "a link is missing: chain %s begins with receipt %d", r.Chain, r.N)
	case last == nil || last.Hash == r.Hash:
		return nil
	case last.N == r.N:
		return faulty(Missing, "chain %s has two different receipts with the number %d: %s and %s", r.Chain, r.N, last.ID, r.ID)
	case last.N+1 != r.N:
		return faulty(Missing, "a link is missing: chain %s has receipt %d (%s) and then %d (%s)", r.Chain, last.N, last.ID, r.N, r.ID)
	case last.Hash != r.Previous:
		return faulty(Missing, "chain %s is broken: receipt %d (%s) does not name the hash of the one before it (%s)", r.Chain, r.N, r.ID, last.ID)
	}
	return nil
}

// CheckMonth checks that receipts are all of an account and month, by the root that the operator has told.
func CheckMonth(list []*Receipt, root string) error {
	ends, err := CheckChains(list, true)
	if err != nil {
		return err
	}
	if got := Root(ends); !strings.EqualFold(got, root) {
		return faulty(OtherRoot, "the %d receipts have the root %s, not %s: some are missing at the end of a chain, or were added", len(list), got, root)
	}
	return nil
}
