// Package receipt makes and checks the receipts of calls: statements of what a call was, consumed and cost, signed by the
// operator, each chained to the one before it.
//
// A statement is complete when the call is settled (Notary.State and Link), and is written to the journal with the settlement.
// It is signed when somebody gets it, or else on its way into the database: an Ed25519 signature costs more than everything
// else, and a call whose caller does not wait for its receipt does not wait for that either. Nothing is ever signed that was
// read from a database.
//
// A receipt says what the operator attests, and no more. See docs/call/receipts.md.
package receipt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Header is the header that asks for a receipt, if its value is 1, and that has it in the reply.
const Header = "X-Sluice-Receipt"

// Comment begins the comment that has the receipt at the end of a stream.
const Comment = ": sluice-receipt "

// version is that of the format of statements.
const version = 1

// Claims are what a receipt says. Hashes are SHA-256 in hexadecimal digits.
type Claims struct {
	Version int    `json:"v"`
	Issuer  string `json:"iss"`
	Account string `json:"sub"`
	ID      string `json:"jti"` // of the request, or of the video
	Key     string `json:"key"` // the id of the API key
	At      int64  `json:"at"`  // when the call began, in milliseconds
	Door    string `json:"door"`
	Request string `json:"request_sha256"`
	// Reply is the hash of the body of the reply, as it was sent; of a video, that of the file. Empty: nothing was sent.
	Reply        string       `json:"reply_sha256,omitempty"`
	Asked        string       `json:"model_asked"`
	Served       string       `json:"model_served"`
	Upstream     string       `json:"upstream"`
	Buckets      []Bucket     `json:"buckets"`
	PriceVersion string       `json:"price_version"`
	Cost         *json.Number `json:"cost_usd"` // null: the call has no price
	Debited      Debited      `json:"debited"`
	End          string       `json:"end"`
	Status       int          `json:"status"`

	IssuedAt int64  `json:"iat"`
	Month    string `json:"month"` // of IssuedAt, such as 2026-11
	Chain    string `json:"chain"`
	N        int64  `json:"n"`              // the place in the chain, from 1
	Previous string `json:"prev,omitempty"` // the hash of the statement before it; empty for the first
}

// Bucket is a count of what the call consumed.
type Bucket struct {
	Name  string      `json:"bucket"`
	Count json.Number `json:"count"`
	By    string      `json:"by"` // who counted: vendor, ours or estimate
}

// Debited is what the call counts against the limits of the account.
type Debited struct {
	Requests json.Number `json:"requests"`
	Units    json.Number `json:"units"`
}

// Read reads the claims of a statement.
func Read(statement []byte) (*Claims, error) {
	c := &Claims{}
	if err := json.Unmarshal(statement, c); err != nil {
		return nil, fmt.Errorf("read a statement: %w", err)
	}
	if c.Version != version {
		return nil, fmt.Errorf("the statement has format %d, and this program knows %d; use a newer one", c.Version, version)
	}
	return c, nil
}

// locate sets where a receipt is found, from its statement. It reads only that: a tenth of the time that Read takes.
func locate(r *usage.Receipt) error {
	var of, at, n int
	c := jsonscan.Cursor{Body: r.Statement}
	text := func(to *string) bool {
		from, end, ok := c.Text()
		if ok {
			*to = string(r.Statement[from:end])
		}
		return ok
	}
	number := func(to *int) (ok bool) {
		*to, ok = c.Uint(15)
		return ok
	}
	ok := c.Members(func(key []byte) bool {
		switch string(key) {
		case "v":
			return number(&of)
		case "iat":
			return number(&at)
		case "month":
			return text(&r.Month)
		case "chain":
			return text(&r.Chain)
		case "n":
			return number(&n)
		default:
			return c.Skip(4)
		}
	})
	if !ok || of != version || n == 0 {
		_, err := Read(r.Statement)
		return cmp.Or(err, errors.New("a statement has no place in a chain"))
	}
	r.N, r.IssuedAt, r.Hash = int64(n), time.Unix(int64(at), 0).UTC(), Hash(r.Statement)
	return nil
}

// Hash returns the hash of a statement, by which the next one refers to it.
func Hash(statement []byte) string {
	sum := sha256.Sum256(statement)
	return hex.EncodeToString(sum[:])
}

// appendClaims appends what a settlement says, without the end of the object: the place in a chain follows.
func appendClaims(b []byte, issuer string, s *usage.Settlement) []byte {
	b = append(b, `{"v":1`...)
	text := func(name, value string) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = jsonscan.AppendQuoted(b, value)
	}
	digest := func(name string, sum *[sha256.Size]byte) {
		b = append(append(append(b, `,"`...), name...), `":"`...)
		b = append(hex.AppendEncode(b, sum[:]), '"')
	}
	text("iss", issuer)
	text("sub", s.AccountID)
	text("jti", s.ID)
	text("key", s.KeyID)
	b = strconv.AppendInt(append(b, `,"at":`...), s.At.UnixMilli(), 10)
	text("door", s.Entrance())
	digest("request_sha256", &s.Receipt.Request)
	if s.Receipt.Replied {
		digest("reply_sha256", &s.Receipt.Reply)
	}
	text("model_asked", s.ModelAsked)
	text("model_served", s.ModelUsed)
	text("upstream", s.Provider)
	b = appendBuckets(append(b, `,"buckets":`...), s)
	text("price_version", s.Terms.Version)
	b = append(b, `,"cost_usd":`...)
	if charge := s.Charge(); charge != nil {
		b = charge.AppendJSON(b)
	} else {
		b = append(b, `null`...)
	}
	b = appendMilli(append(b, `,"debited":{"requests":`...), s.RequestMilli)
	b = append(appendMilli(append(b, `,"units":`...), s.UnitMilli), '}')
	text("end", string(s.End))
	return strconv.AppendInt(append(b, `,"status":`...), int64(s.Status), 10)
}

// appendBuckets appends the counts that are not zero.
func appendBuckets(b []byte, s *usage.Settlement) []byte {
	b = append(b, '[')
	first := true
	put := func(name string, milli int64, by string) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = jsonscan.AppendQuoted(append(b, `{"bucket":`...), name)
		b = appendMilli(append(b, `,"count":`...), milli)
		b = append(append(append(b, `,"by":"`...), by...), `"}`...)
	}
	counts := s.Counts()
	for i, n := range counts.Tokens {
		if n != 0 {
			put(price.Bucket(i).String(), n*1000, s.Source(price.Bucket(i)))
		}
	}
	for _, u := range counts.Used {
		put(u.Name, u.Milli, usage.ByVendor)
	}
	return append(b, ']')
}

// appendMilli appends thousandths as a JSON number without needless digits.
func appendMilli(b []byte, milli int64) []byte {
	b = strconv.AppendInt(b, milli/1000, 10)
	if rest := milli % 1000; rest > 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return b
}

// link is a place in a chain.
type link struct {
	chain string
	n     int64
	prev  *[sha256.Size]byte // nil: it is the first
}

// appendLink appends the place in a chain, and ends the statement.
func appendLink(b []byte, at time.Time, month string, l link) []byte {
	b = strconv.AppendInt(append(b, `,"iat":`...), at.Unix(), 10)
	b = append(append(b, `,"month":"`...), month...)
	b = append(append(b, `","chain":"`...), l.chain...)
	b = strconv.AppendInt(append(b, `","n":`...), l.n, 10)
	if l.prev != nil {
		b = append(hex.AppendEncode(append(b, `,"prev":"`...), l.prev[:]), '"')
	}
	return append(b, '}')
}

// MonthOf returns the name of the month that a time belongs to, by UTC.
func MonthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// Stored is a receipt in the database.
type Stored struct {
	Point
	Signed string
}

// Point is a place in an account's list of receipts: when a receipt was issued, its number in its chain, and the id of its call.
// The zero value is before all.
type Point struct {
	At time.Time
	N  int64
	ID string
}
