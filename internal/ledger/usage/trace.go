package usage

import (
	"encoding/binary"
	"slices"
	"time"

	"sluice/internal/kit/excerpt"
)

// Trace is how a call came to its end: where it came from, why its model was chosen, and which targets were
// tried when. It never holds anything of a prompt or an answer.
type Trace struct {
	// RequestID is the id that the caller was told, if a proxy gave it. Empty: it is that of the settlement.
	RequestID string
	Address   string
	// Session is the caller's own name of the run that the call belongs to, as agents send it; empty: it gave none.
	Session string
	// Reason is why the router chose the model. Empty: the request named it.
	Reason string
	// Affinity is the value of x-sluice-affinity: whether the call reached the target of its conversation's last call. Empty:
	// the model has no affinity.
	Affinity string
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
	// Key is what tells the provider's keys apart, their last four characters; empty: it needs none.
	Key string
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
	// MaxTrace is the size of an encoded trace at most, in bytes. A usual one has about 90.
	MaxTrace = 1<<10 + MaxSession + 1 + maxServed
	// MaxSession is how many bytes the name of a session has at most.
	MaxSession = 64
	// maxTries is how many attempts a way lists at most while the call runs. Fewer are kept if their
	// names are long.
	maxTries = 16

	// A trace with a session is of the second version, which has it at its end.
	wayVersion     = 1
	sessionVersion = 2

	// The longest texts of a way. Longer ones are cut, so that two attempts always have room.
	maxTraceID     = 128
	maxTraceFrom   = 64
	maxTraceReason = 200
	maxTraceName   = 80
	maxTraceWord   = 16
	maxTraceKey    = 8
	maxAffinity    = 48
	// maxServed is the size of what stands behind a trace at most.
	maxServed = maxAffinity + 1 + 1 + maxTries*(maxTraceKey+1)
	// maxTry is the size of an encoded attempt at most: three names, the outcome, their lengths and three numbers.
	maxTry = 3*(maxTraceName+1) + maxTraceWord + 1 + 1 + 3*binary.MaxVarintLen64
)

// Tried adds an attempt. If there are too many, it takes the place of the one before: the last one says how the
// call ended.
func (w *Trace) Tried(a Attempt) {
	if len(w.Attempts) == maxTries {
		w.Attempts = w.Attempts[:maxTries-1]
		w.Left++
	}
	w.Attempts = append(w.Attempts, a)
}

// AppendTrace appends the encoded trace to b: its way, and behind it who served, where versions before do not look. w may be
// nil, which adds nothing.
func AppendTrace(b []byte, w *Trace) []byte {
	if b = appendWay(b, w); w.isServed() {
		b = appendServed(b, w)
	}
	return b
}

// isServed reports whether there is something to say of who served. w may be nil.
func (w *Trace) isServed() bool {
	return w != nil && (w.Affinity != "" || slices.ContainsFunc(w.Attempts, func(a Attempt) bool { return a.Key != "" }))
}

// appendServed appends the affinity, and the keys of the attempts that appendWay lists: the first ones and the last one.
func appendServed(b []byte, w *Trace) []byte {
	b = appendText(b, w.Affinity, maxAffinity)
	listed := min(len(w.Attempts), maxTries)
	b = binary.AppendUvarint(b, uint64(listed))
	for i := range listed - 1 {
		b = appendText(b, w.Attempts[i].Key, maxTraceKey)
	}
	if listed > 0 {
		b = appendText(b, w.Attempts[len(w.Attempts)-1].Key, maxTraceKey)
	}
	return b
}

// readServed reads what appendServed has written. The last key is that of the last attempt, also if attempts before it were
// left out.
func (w *Trace) readServed(r *reader, known texts) {
	w.Affinity = known.text(r.bytes())
	n, used := binary.Uvarint(r.raw)
	if r.bad || used <= 0 || n > maxTries {
		r.bad = true
		return
	}
	r.raw = r.raw[used:]
	for i := range int(n) {
		key := known.text(r.bytes())
		switch last := len(w.Attempts) - 1; {
		case i < int(n)-1 && i < last:
			w.Attempts[i].Key = key
		case i == int(n)-1 && last >= 0:
			w.Attempts[last].Key = key
		}
	}
}

// appendWay appends the way of a call: a version, texts after their length, and for each attempt a one, its
// texts and its numbers. A zero ends the list. A session comes last. w may be nil, which adds nothing.
func appendWay(b []byte, w *Trace) []byte {
	if w == nil {
		return b
	}
	begin, left := len(b), w.Left
	version := byte(wayVersion)
	if w.Session != "" {
		version = sessionVersion
	}
	b = append(b, version)
	b = appendText(b, w.RequestID, maxTraceID)
	b = appendText(b, w.Address, maxTraceFrom)
	b = appendText(b, w.Reason, maxTraceReason)
	for i := range w.Attempts {
		a := &w.Attempts[i]
		// The last attempt says how it ended, so there must be room for it after this one.
		if i < len(w.Attempts)-1 && len(b)-begin+2*maxTry+2+binary.MaxVarintLen64+MaxSession+1 > MaxTrace-maxServed {
			left++
			continue
		}
		b = append(b, 1)
		b = appendText(b, a.Model, maxTraceName)
		b = appendText(b, a.Provider, maxTraceName)
		b = appendText(b, a.Upstream, maxTraceName)
		b = appendText(b, a.Outcome, maxTraceWord)
		b = binary.AppendVarint(b, int64(a.Status))
		b = binary.AppendVarint(b, a.Start.Microseconds())
		b = binary.AppendVarint(b, a.End.Microseconds())
	}
	b = binary.AppendUvarint(append(b, 0), uint64(left))
	if version == sessionVersion {
		b = appendText(b, w.Session, MaxSession)
	}
	return b
}

// appendText appends a text of at most most bytes after its length.
func appendText(b []byte, s string, most int) []byte {
	if len(s) > most {
		s = excerpt.Head(s, most)
	}
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// ParseTrace decodes a trace. It returns nil and no error for an empty one, which calls of earlier versions have. A trace
// of a later version is an error.
func ParseTrace(raw []byte) (*Trace, error) {
	w, rest, err := parseWay(raw, nil)
	if len(rest) == 0 {
		return w, err
	}
	r := reader{raw: rest}
	if w.readServed(&r, nil); r.bad {
		return nil, errRecord
	}
	return w, nil
}

// parseWay is the opposite of appendWay, with texts that many traces share; see parseRecord. It also returns what follows
// the way.
func parseWay(raw []byte, known texts) (*Trace, []byte, error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	version := raw[0]
	if version != wayVersion && version != sessionVersion {
		return nil, nil, errRecord
	}
	w := &Trace{}
	r := reader{raw: raw[1:]}
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
	r.raw = r.raw[used:]
	if version == sessionVersion {
		w.Session = string(r.bytes())
	}
	if r.bad {
		return nil, nil, errRecord
	}
	return w, r.raw, nil
}

// reader reads the parts of an encoded record or trace. Once a part is missing, bad stays set and the rest is empty.
type reader struct {
	raw []byte
	bad bool
}

// next reports whether another attempt follows.
func (r *reader) next() bool {
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

func (r *reader) bytes() []byte {
	n, used := binary.Uvarint(r.raw)
	if r.bad || used <= 0 || n > uint64(len(r.raw)-used) {
		r.bad = true
		return nil
	}
	text := r.raw[used : used+int(n)]
	r.raw = r.raw[used+int(n):]
	return text
}

func (r *reader) number() int64 {
	n, used := binary.Varint(r.raw)
	if r.bad || used <= 0 {
		r.bad = true
		return 0
	}
	r.raw = r.raw[used:]
	return n
}
