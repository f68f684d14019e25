package auth

import (
	"encoding/binary"
	"time"

	"sluice/internal/account"
	"sluice/internal/prompt/chat"
)

// place is where something is in an arena.
type place struct{ chunk, offset, size uint32 }

// arena holds encoded states one after the other. There are few chunks, and no pointers in them.
type arena struct {
	chunks [][]byte
	used   int    // bytes, with those that were freed
	freed  int    // bytes
	room   []byte // memory for encode
}

const (
	// The first chunk is small, since most installations have few accounts, and each is twice as large as the one before.
	minChunk = 1 << 10
	maxChunk = 256 << 10
	// maxEncoded is the size of the largest state that an arena holds. Usual ones have about 150 bytes.
	maxEncoded = 16 << 10
	// An arena is compacted if more than half of it was freed, and at least this.
	minFreed = 16 << 10
)

// add copies b, which has at least one byte, into the arena.
func (a *arena) add(b []byte) place {
	last := len(a.chunks) - 1
	if last < 0 || cap(a.chunks[last])-len(a.chunks[last]) < len(b) {
		size := minChunk
		if last >= 0 {
			size = min(2*cap(a.chunks[last]), maxChunk)
		}
		a.chunks = append(a.chunks, make([]byte, 0, max(size, len(b))))
		last++
	}
	at := place{uint32(last), uint32(len(a.chunks[last])), uint32(len(b))}
	a.chunks[last] = append(a.chunks[last], b...)
	a.used += len(b)
	return at
}

// get returns what is at a place. It must not be changed.
func (a *arena) get(at place) []byte { return a.chunks[at.chunk][at.offset:][:at.size:at.size] }

// free notes that what is at a place is not needed any more. The empty place has nothing.
func (a *arena) free(at place) { a.freed += int(at.size) }

// wasteful reports whether the arena should be compacted.
func (a *arena) wasteful() bool { return a.freed >= minFreed && 2*a.freed > a.used }

// The bits of an encoded state.
const (
	isGranted = 1 << iota
	isStaff
	showsCost
	makesReceipts
	hasSuspended
	hasDeactivated
	hasRequests // an override of the requests a minute
	hasConcurrent
	hasTokens
)

// encode appends the state of an account to b. It reports false if the account has something that few have, such as budgets
// or keys with limits; such an account is held as it is. So a new field of account.Account needs a line here, in plain or in
// both of encode and decode; TestEncode says which are missing.
//
// The form is that of this process alone. It begins with the id.
func encode(b []byte, a *account.Account) (_ []byte, ok bool) {
	if !plain(a) {
		return b, false
	}
	var flags uint64
	for _, f := range []struct {
		on  bool
		bit uint64
	}{
		{a.Granted, isGranted},
		{a.Staff, isStaff},
		{a.ShowCost, showsCost},
		{a.Receipts, makesReceipts},
		{a.Suspended != nil, hasSuspended},
		{a.Deactivated != nil, hasDeactivated},
		{a.Overrides.RequestsPerMinute != nil, hasRequests},
		{a.Overrides.Concurrent != nil, hasConcurrent},
		{a.Overrides.TokensPerMinute != nil, hasTokens},
	} {
		if f.on {
			flags |= f.bit
		}
	}
	b = appendText(appendText(b, a.ID), a.Email)
	b = append(binary.AppendUvarint(b, flags), byte(a.Plan), byte(a.AutoCache))
	b = binary.AppendVarint(appendTime(b, a.CreatedAt), a.Version)
	for _, l := range []*account.Limit{a.Overrides.RequestsPerMinute, a.Overrides.Concurrent, a.Overrides.TokensPerMinute} {
		if l != nil {
			b = binary.AppendVarint(b, int64(*l))
		}
	}
	for _, m := range []*account.Mark{a.Suspended, a.Deactivated} {
		if m != nil {
			b = append(appendText(appendTime(b, m.At), m.Reason), bit(m.Final))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(a.Keys)))
	for i := range a.Keys {
		k := &a.Keys[i]
		b = append(append(appendText(b, k.ID), k.Hash[:]...), bit(k.Master))
		b = appendText(appendText(appendText(b, k.Name), k.LastFour), k.CreatedBy)
		b = appendTime(appendTime(b, k.CreatedAt), k.LastUsedAt)
	}
	return b, len(b) <= maxEncoded
}

// plain reports whether an account has nothing that encode leaves out.
func plain(a *account.Account) bool {
	if a.Aliases != nil || len(a.Budgets) > 0 || a.Runaway.On != "" || a.Runaway.Factor != 0 || len(a.Runaway.Paused) > 0 || len(a.Runaway.Resumed) > 0 || !simple(a.CreatedAt) {
		return false
	}
	for _, m := range []*account.Mark{a.Suspended, a.Deactivated} {
		if m != nil && !simple(m.At) {
			return false
		}
	}
	for i := range a.Keys {
		if k := &a.Keys[i]; k.Limits != nil || len(k.Tags) > 0 || !simple(k.CreatedAt) || !simple(k.LastUsedAt) {
			return false
		}
	}
	return true
}

// decode returns the account that encode has encoded. Its texts share one copy of b.
func decode(b []byte) *account.Account {
	r := reader{text: string(b)}
	a := &account.Account{ID: r.read(), Email: r.read()}
	flags := r.unsigned()
	a.Granted, a.Staff, a.ShowCost, a.Receipts = flags&isGranted != 0, flags&isStaff != 0, flags&showsCost != 0, flags&makesReceipts != 0
	a.Plan, a.AutoCache = account.Plan(r.byte()), chat.Switch(r.byte())
	a.CreatedAt, a.Version = r.time(), r.signed()
	if flags&(hasRequests|hasConcurrent|hasTokens) != 0 {
		limits := new([3]account.Limit)
		for i, l := range []struct {
			bit uint64
			to  **account.Limit
		}{{hasRequests, &a.Overrides.RequestsPerMinute}, {hasConcurrent, &a.Overrides.Concurrent}, {hasTokens, &a.Overrides.TokensPerMinute}} {
			if flags&l.bit != 0 {
				limits[i], *l.to = account.Limit(r.signed()), &limits[i]
			}
		}
	}
	for _, m := range []struct {
		bit uint64
		to  **account.Mark
	}{{hasSuspended, &a.Suspended}, {hasDeactivated, &a.Deactivated}} {
		if flags&m.bit != 0 {
			*m.to = &account.Mark{At: r.time(), Reason: r.read(), Final: r.byte() != 0}
		}
	}
	if n := r.unsigned(); n > 0 {
		a.Keys = make([]account.Key, n)
		for i := range a.Keys {
			k := &a.Keys[i]
			k.ID = r.read()
			copy(k.Hash[:], r.next(uint64(len(k.Hash))))
			k.Master = r.byte() != 0
			k.Name, k.LastFour, k.CreatedBy = r.read(), r.read(), r.read()
			k.CreatedAt, k.LastUsedAt = r.time(), r.time()
		}
	}
	return a
}

// isOf reports whether an encoded state is that of the account with an id.
func isOf(b []byte, id string) bool {
	n, size := binary.Uvarint(b)
	return string(b[size:][:n]) == id // which copies nothing
}

// simple reports whether appendTime keeps all of a time: it is in UTC and has no reading of the monotonic clock.
func simple(t time.Time) bool { return t == time.Unix(t.Unix(), int64(t.Nanosecond())).UTC() }

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func bit(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// reader reads what encode has written.
type reader struct{ text string }

func (r *reader) next(n uint64) string {
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}

func (r *reader) byte() byte { return r.next(1)[0] }

func (r *reader) unsigned() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (r *reader) signed() int64 {
	n := r.unsigned()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *reader) read() string { return r.next(r.unsigned()) }

func (r *reader) time() time.Time { return time.Unix(r.signed(), int64(r.unsigned())).UTC() }
