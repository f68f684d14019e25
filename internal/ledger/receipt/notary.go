package receipt

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"sluice/internal/ledger/usage"
)

// Notary makes the receipts of one process. It implements usage.Notary.
//
// Each start of a process has its own chain for every account and month. So nothing has to be read before the first receipt,
// nodes need not agree on an order, and no place of a chain is ever given twice, even if a power cut took the last second of
// the journal (docs/decisions/0037-receipts.md).
type Notary struct {
	ring   *Ring
	issuer func() string // the origin of the service; a reload may change it
	chain  string        // the name of the chains of this process
	now    func() time.Time

	mu    sync.Mutex
	month string    // of the heads
	last  time.Time // when the last receipt was issued
	end   time.Time // of the month
	heads map[string]*head
}

// head is the last statement of an account's chain.
type head struct {
	n   int64
	sum [sha256.Size]byte
}

// NewNotary returns a notary that signs with the keys of a ring.
func NewNotary(ring *Ring, issuer func() string) *Notary {
	return &Notary{ring: ring, issuer: issuer, chain: strings.ToLower(rand.Text()), now: time.Now, heads: map[string]*head{}}
}

// State begins the statement of a settlement that has a receipt.
func (n *Notary) State(s *usage.Settlement) {
	s.Receipt.Statement = appendClaims(make([]byte, 0, 1024), n.issuer(), s)
}

// Link gives a statement the next place in its chain, and ends it. The caller writes settlements in the order in which it calls
// Link: if the process dies, what is lost is the end of a chain, and nobody has got it.
func (n *Notary) Link(s *usage.Settlement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.now()
	if at.Before(n.last) { // the clock was set back; the times of a chain, and its month, follow its numbers
		at = n.last
	}
	if n.last = at; !at.Before(n.end) {
		n.month, n.end = MonthOf(at), usage.MonthOf(at).AddDate(0, 1, 0)
		clear(n.heads)
	}
	h := n.heads[s.AccountID]
	if h == nil {
		h = &head{}
		n.heads[s.AccountID] = h
	}
	l := link{chain: n.chain, n: h.n + 1}
	if h.n > 0 {
		l.prev = &h.sum
	}
	s.Receipt.Statement = appendLink(s.Receipt.Statement, at, n.month, l)
	h.n, h.sum = l.n, sha256.Sum256(s.Receipt.Statement)
}

// Alone makes the receipt of a settlement that is not written to the journal: that of a video, which is stored in the same
// transaction as its job. It is a chain of its own, so a transaction that fails leaves no gap.
func (n *Notary) Alone(s *usage.Settlement) {
	n.State(s)
	at := n.now()
	s.Receipt.Statement = appendLink(s.Receipt.Statement, at, MonthOf(at), link{chain: s.ID, n: 1})
}

// Deliver signs a statement for the caller. It returns an empty string if the statement is not in the journal, because a receipt
// that was sent must not be lost with the process, or if there is no key, which a server that runs always has.
func (n *Notary) Deliver(r *usage.Receipt) string {
	if len(r.Statement) == 0 || r.Unwritten {
		return ""
	}
	signed, err := n.ring.Sign(r.Statement)
	if err != nil {
		return ""
	}
	return signed
}
