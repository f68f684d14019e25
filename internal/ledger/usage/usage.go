// Package usage accounts for what calls consumed.
//
// Every call that reached an upstream ends in exactly one Settlement. Books is the front of the
// package. Its Record writes a settlement to the Journal, a few files on the local disk, before the
// last byte of the reply is sent; from there the Committer moves it into the database. So a call
// never waits for the database, and a settlement survives the death of the process. See
// docs/accounting.md#the-path-of-a-settlement.
//
// What a caller may still use is not decided here; see admission.
package usage

import (
	"crypto/sha256"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// End says how a call ended.
type End string

const (
	EndComplete End = "complete" // the caller got the whole reply
	EndHangUp   End = "hang_up"  // the caller left; what was produced counts
	EndCut      End = "cut"      // the reply failed after it had begun; what was produced counts
	EndFailed   End = "failed"   // nothing was produced
)

// The doors that calls come in by; see docs/api.md. They become labels of metrics, so the set is closed.
const (
	DoorChat       = "chat" // settlements leave it empty
	DoorResponses  = "responses"
	DoorMessages   = "messages"
	DoorEmbeddings = "embeddings"
	DoorVideos     = "videos"
)

// Settlement is the record of one call. It never changes once it is recorded.
//
// Amounts are integers: Milli is thousandths, Nano is billionths. A new field needs a place in
// appendRecord and parseRecord and a column in the database.
type Settlement struct {
	ID        string    // the request's id; the database stores each id once
	At        time.Time // when the call started
	AccountID string
	KeyID     string
	Plan      string // the account's plan when the call was made
	// Door is where the call came in. Empty: chat completions, or a call of an earlier version.
	Door string

	ModelAsked string
	ModelUsed  string
	Provider   string
	Tier       string // of the model that answered

	Tokens       chat.Usage
	Counted      bool  // the upstream reported no tokens, so we counted them
	RequestMilli int64 // counts against the requests of the minute
	UnitMilli    int64 // counts against the monthly budget; see package abuse

	// Cost is what the vendor charges; nil if something that was used has no price, which is not the same as free.
	Cost *price.Nano
	// Margin is what the customer is told beyond Cost, or below it: what the operator's markup adds.
	Margin price.Nano
	Terms  Terms
	Caching
	// Corrected is what later corrections have changed of the cost, which includes them where a settlement is read. It is nil
	// for most, and where settlements are written.
	Corrected *Corrected

	MCPCalls  int // calls of tools on MCP servers
	MCPFailed int // those of them that returned an error or nothing

	Status     int // HTTP status of the reply; 0 if the caller left before there was one
	End        End
	Latency    time.Duration // from At to the end of the call
	FirstToken time.Duration // from At to the first token; 0 if none came

	// Trace is how the call came to its end. It is nil for videos and for calls of earlier versions, and where
	// settlements are listed: only the finder reads it.
	Trace *Trace

	// Receipt is what the customer gets a signed statement of; nil: the call has none. Like Trace, it is not read with lists.
	Receipt *Receipt
}

// Receipt is what the receipt of a call says beyond its settlement, and then the receipt itself; see package receipt.
type Receipt struct {
	Request, Reply [sha256.Size]byte // the hashes of the bodies
	Replied        bool              // something was sent, so that Reply is set
	// Statement is what is signed. It is complete once the settlement is recorded, and does not change after that.
	Statement []byte
	// Unwritten says that the settlement is not in the journal, so that the statement may be lost or incomplete: nobody gets it yet.
	Unwritten bool
	// Signed is the receipt, and the rest is where it is found. The store sets them.
	Signed       string
	Month, Chain string
	N            int64
	Hash         string // of the statement
	IssuedAt     time.Time
}

// Notary makes receipts.
type Notary interface {
	// State begins the statement of a settlement, and Link ends it. Link is called in the order in which settlements are
	// written.
	State(s *Settlement)
	Link(s *Settlement)
}

// MonthOf returns the start of the month that a time belongs to. Units are counted by months of UTC.
func MonthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Session returns the caller's own name of the run that the call belongs to; empty if it gave none, or if its trace was not read.
func (s *Settlement) Session() string {
	if s.Trace == nil {
		return ""
	}
	return s.Trace.Session
}

// Entrance returns the door of the call for people to read.
func (s *Settlement) Entrance() string {
	if s.Door == "" {
		return DoorChat
	}
	return s.Door
}
