package usage

import (
	"encoding/binary"
	"time"

	"sluice/internal/kit/excerpt"
)

// Way is how a call came to its end: where it came from, why its model was chosen, and which targets were
// tried when. It never holds anything of a prompt or an answer.
type Way struct {
	// RequestID is the id that the caller was told, if a proxy gave it. Empty: it is that of the settlement.
	RequestID string
	Address   string
	// Reason is why the router chose the model. Empty: the request named it.
	Reason string
	// Attempts are the calls of upstreams, in order.
	Attempts []Attempt
	// Left counts attempts that are not in the list because there is no room for them.
	Left int
}

// Attempt is one call of an upstream. Times are from the start of the call.
type Attempt struct {
	Model    string
	Provider string
	Upstream string // what the provider calls the model
	// Outcome is "answered", or why there was no answer, in a word.
	Outcome string
	Status  int // of an upstream that refused the call
	Start   time.Duration
	// End is when the first content came, or when the attempt failed.
	End time.Duration
}

// Answered is the outcome of an attempt whose upstream had something to say.
const Answered = "answered"

const (
	// MaxWay is the size of an encoded way at most, in bytes. A usual one has about 90.
	MaxWay = 1 << 10
	// maxTries is how many attempts a way lists at most while the call runs. Fewer are kept if their
	// names are long.
	maxTries = 16

	wayVersion = 1

	// The longest texts of a way. Longer ones are cut, so that two attempts always have room.
	maxWayID     = 128
	maxWayFrom   = 64
	maxWayReason = 200
	maxWayName   = 80
	maxWayWord   = 16
	// maxTry is the size of an encoded attempt at most: three names, the outcome, their lengths and three numbers.
	maxTry = 3*(maxWayName+1) + maxWayWord + 1 + 1 + 3*binary.MaxVarintLen64
)

// Tried adds an attempt. If there are too many, it takes the place of the one before: the last one says how the
// call ended.
func (w *Way) Tried(a Attempt) {
	if len(w.Attempts) == maxTries {
		w.Attempts = w.Attempts[:maxTries-1]
		w.Left++
	}
	w.Attempts = append(w.Attempts, a)
}

// AppendWay appends the encoded way to b: a version, texts after their length, and for each attempt a one, its
// texts and its numbers. A zero ends the list. w may be nil, which adds nothing.
func AppendWay(b []byte, w *Way) []byte {
	if w == nil {
		return b
	}
	begin, left := len(b), w.Left
	b = append(b, wayVersion)
	b = appendText(b, w.RequestID, maxWayID)
	b = appendText(b, w.Address, maxWayFrom)
	b = appendText(b, w.Reason, maxWayReason)
	for i := range w.Attempts {
		a := &w.Attempts[i]
		// The last attempt says how it ended, so there must be room for it after this one.
		if i < len(w.Attempts)-1 && len(b)-begin+2*maxTry+2+binary.MaxVarintLen64 > MaxWay {
			left++
			continue
		}
		b = append(b, 1)
		b = appendText(b, a.Model, maxWayName)
		b = appendText(b, a.Provider, maxWayName)
		b = appendText(b, a.Upstream, maxWayName)
		b = appendText(b, a.Outcome, maxWayWord)
		b = binary.AppendVarint(b, int64(a.Status))
		b = binary.AppendVarint(b, a.Start.Microseconds())
		b = binary.AppendVarint(b, a.End.Microseconds())
	}
	b = append(b, 0)
	return binary.AppendUvarint(b, uint64(left))
}

// appendText appends a text of at most most bytes after its length.
func appendText(b []byte, s string, most int) []byte {
	if len(s) > most {
		s = excerpt.Head(s, most)
	}
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// ParseWay decodes a way. It returns nil and no error for an empty one, which calls of earlier versions have. A way
// of a later version is an error.
func ParseWay(raw []byte) (*Way, error) {
	w, _, err := parseWay(raw, nil)
	return w, err
}

// parseWay is ParseWay with texts that many ways share; see parseRecord. It also returns what follows the way.
func parseWay(raw []byte, known texts) (*Way, []byte, error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	if raw[0] != wayVersion {
		return nil, nil, errRecord
	}
	w := &Way{}
	r := wayReader{raw: raw[1:]}
	w.RequestID, w.Address, w.Reason = string(r.bytes()), string(r.bytes()), known.text(r.bytes())
	for r.next() {
		a := Attempt{
			Model: known.text(r.bytes()), Provider: known.text(r.bytes()), Upstream: known.text(r.bytes()), Outcome: known.text(r.bytes()),
			Status: int(r.number()),
		}
		a.Start, a.End = time.Duration(r.number())*time.Microsecond, time.Duration(r.number())*time.Microsecond
		w.Tried(a)
	}
	n, used := binary.Uvarint(r.raw)
	if r.bad || used <= 0 {
		return nil, nil, errRecord
	}
	w.Left += int(n)
	return w, r.raw[used:], nil
}

// wayReader reads the parts of an encoded way. Once a part is missing, bad stays set and the rest is empty.
type wayReader struct {
	raw []byte
	bad bool
}

// next reports whether another attempt follows.
func (r *wayReader) next() bool {
	if len(r.raw) == 0 || r.raw[0] > 1 {
		r.bad = true
	}
	if r.bad {
		return false
	}
	more := r.raw[0] == 1
	r.raw = r.raw[1:]
	return more
}

func (r *wayReader) bytes() []byte {
	n, used := binary.Uvarint(r.raw)
	if r.bad || used <= 0 || n > uint64(len(r.raw)-used) {
		r.bad = true
		return nil
	}
	text := r.raw[used : used+int(n)]
	r.raw = r.raw[used+int(n):]
	return text
}

func (r *wayReader) number() int64 {
	n, used := binary.Varint(r.raw)
	if r.bad || used <= 0 {
		r.bad = true
		return 0
	}
	r.raw = r.raw[used:]
	return n
}
