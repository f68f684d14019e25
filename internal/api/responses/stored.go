package responses

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/seal"
	"sluice/internal/prompt/chat"
)

const (
	// keepFor is how long a response is kept.
	keepFor = 30 * 24 * time.Hour
	// MaxKept is the largest response in bytes that is kept, with its input.
	MaxKept = 32 << 20
	// maxPast is the number of bytes that a request may refer to: those of its whole conversation.
	maxPast = 32 << 20
	// maxTurns is the number of responses of one conversation.
	maxTurns = 4096

	// How long a request waits for the store. Each perSecond bytes that are stored together have a second more.
	findPatience = 5 * time.Second
	keepPatience = 2 * time.Second
	perSecond    = 8 << 20
)

// MaxAccount returns the bound of one account's responses.
func MaxAccount() Bound { return Bound{Entries: 100_000, Bytes: 256 << 20} }

// Bound is the largest number of responses, and of their bytes.
type Bound struct{ Entries, Bytes int64 }

// Record is one encrypted response, as it is stored.
type Record struct {
	ID        []byte // a hash of the account and the response's id; the id itself is not stored
	AccountID string
	Previous  []byte // the ID of the response before it; empty: it begins a conversation
	Sealed    []byte
	ExpiresAt time.Time
}

// Link is the place of a response in its conversation.
type Link struct {
	ID, Previous []byte
	Size         int64
}

// Store keeps encrypted responses.
type Store interface {
	// KeepResponses stores responses, all or none. It deletes the oldest ones of an account if they would exceed the
	// bound.
	KeepResponses(ctx context.Context, all []*Record, most Bound) error
	// FindResponses returns the encrypted responses with the ids, in their order, for the caller to keep. One that is
	// not there, or has expired, is nil.
	FindResponses(ctx context.Context, ids [][]byte, now time.Time) ([][]byte, error)
	// SizeResponses returns the sizes of the encrypted responses with the ids, in their order. One that is not there, or
	// has expired, is 0.
	SizeResponses(ctx context.Context, ids [][]byte, now time.Time) ([]int64, error)
	// FollowResponses returns a response and those before it, the newest first. It ends after most of them, and
	// before one that is not there or has expired.
	FollowResponses(ctx context.Context, id []byte, now time.Time, most int) ([]Link, error)
	// DropResponse deletes a response of an account, and reports whether it was there.
	DropResponse(ctx context.Context, accountID string, id []byte) (bool, error)
	// ForgetResponses deletes all responses of an account.
	ForgetResponses(ctx context.Context, accountID string) error
}

// Archive keeps the responses of all accounts. It is safe for concurrent use.
type Archive struct {
	store   Store
	journal *Journal // nil: a response is in the database before its reply ends
	key     seal.Key
	now     func() time.Time
	room    int64 // maxPast; tests have less

	mu      sync.Mutex
	writing bool      // somebody writes a batch, or is about to
	busy    bool      // there were several callers at the last batch
	waiting []*waiter // those whose responses are in no batch yet, in the order of their coming
}

// ArchiveOptions are the choices of NewArchive; the zero value is the default.
type ArchiveOptions struct {
	Key seal.Key         // the service's own; zero: responses are encrypted under their ids alone
	Now func() time.Time // default time.Now
}

// NewArchive returns an archive on the store, which may be a Journal. Opts may be nil.
func NewArchive(store Store, opts *ArchiveOptions) *Archive {
	s := &Archive{store: store, now: time.Now, room: maxPast}
	s.journal, _ = store.(*Journal)
	if opts != nil {
		s.key = opts.Key
		if opts.Now != nil {
			s.now = opts.Now
		}
	}
	return s
}

// box returns the box of a response. Only the same account and the same id open it.
func (s *Archive) box(accountID, id string) seal.Box { return s.key.Box("responses", accountID, id) }

// name returns the ID of the record of a response.
func (s *Archive) name(accountID, id string) []byte {
	own := s.box(accountID, id).ID()
	return own[:]
}

// sealedHere is what the encrypted content of reasoning begins with if it was sealed here and not by an upstream.
const sealedHere = "slc_"

// Seal encrypts the content of a reasoning item of an account. It is for the caller to keep, and means nothing to
// anybody else.
func (s *Archive) Seal(accountID string, text []byte) string {
	return sealedHere + base64.StdEncoding.EncodeToString(s.key.Box("reasoning", accountID, "").Seal(text))
}

// Opened returns what Seal encrypted for an account. It reports false for anything else.
func (s *Archive) Opened(accountID, sealed string) ([]byte, bool) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, sealedHere))
	if err != nil {
		return nil, false
	}
	text, err := s.key.Box("reasoning", accountID, "").Open(raw)
	return text, err == nil
}

// Keep stores a response and its input. It is durable when Keep returns. The context may be canceled: a caller that
// hangs up now may have read the id already.
func (s *Archive) Keep(ctx context.Context, accountID string, r *Request, id string, response []byte) error {
	// What is kept is {"input":[…],"response":{…}}.
	b := append(make([]byte, 0, len(response)+len(r.inputJSON)+128+seal.Overhead), `{"input":`...)
	b = r.appendInput(b)
	b = append(append(append(b, `,"response":`...), response...), '}')
	if len(b) > MaxKept {
		return fmt.Errorf("keeping a response: it has %d bytes and may have %d", len(b), MaxKept)
	}
	name, sealed := s.box(accountID, id).Record(b)
	rec := &Record{ID: name[:], AccountID: accountID, Previous: []byte{}, Sealed: sealed, ExpiresAt: s.now().Add(keepFor)}
	if r.Previous != "" {
		rec.Previous = s.name(accountID, r.Previous)
	}
	if err := s.keep(ctx, rec); err != nil {
		return fmt.Errorf("keeping a response: %w", err)
	}
	return nil
}

// appendInput appends the items of the input as an array. References have been replaced by what they mean.
func (r *Request) appendInput(b []byte) []byte { return r.appendItems(b, chat.ValueOf(r.inputJSON)) }

// appendItems is appendInput for an input that may differ from the caller's in the tools that its items offer.
func (r *Request) appendItems(b []byte, input chat.Value) []byte {
	switch input.Kind() {
	case 0:
		return append(b, "[]"...)
	case '"':
		b = append(append(b, `[{"type":"message","role":"user","content":[{"type":"input_text","text":`...), input.Raw()...)
		return append(b, `}]}]`...)
	}
	b = append(b, '[')
	for walk := input.Walk(); walk.Next(); {
		i, v := walk.Index, walk.Value.Raw()
		if i > 0 {
			b = append(b, ',')
		}
		if i < len(r.items) && r.items[i].kind == itemReference && r.referenced[r.items[i].id] != nil {
			v = r.referenced[r.items[i].id]
		}
		b = append(b, oneLine(v)...)
	}
	return append(b, ']')
}

// Export calls each with those of the account's responses that are stored, with their inputs, as JSON objects in the order
// of the requests that made them. It holds one of them at a time, and ends before the one that exceeds most bytes in all.
// Requests without a stored response are skipped. Take is that of Find.
func (s *Archive) Export(ctx context.Context, accountID string, requestIDs []string, most int64, take Take, each func(stored []byte) error) error {
	for some := range slices.Chunk(requestIDs, 200) {
		keys := make([][]byte, len(some))
		for i, id := range some {
			keys[i] = s.name(accountID, ResponseID(id))
		}
		sizes, err := s.store.SizeResponses(ctx, keys, s.now())
		if err != nil {
			return unavailable(err)
		}
		for i, size := range sizes {
			if size == 0 {
				continue
			}
			if most -= size; most < 0 {
				return nil
			}
			kept, held, err := s.load(ctx, accountID, ResponseID(some[i]), size, take)
			if fault.Is(err, fault.NotFound) {
				continue // deleted meanwhile
			}
			if err == nil {
				err = each(kept.Raw())
			}
			if err != nil {
				return err
			}
			_ = take.of(-held) // giving back cannot fail
		}
	}
	return nil
}

// Take is called with the number of bytes that are about to be held, before they are read; its error ends the reading. A
// negative number gives them back. Who has not given all back does it when the result is no longer used. A nil Take
// takes whatever comes.
type Take func(n int64) error

// of calls t, which may be nil.
func (t Take) of(n int64) error {
	if t == nil {
		return nil
	}
	return t(n)
}

// Past returns what a request of an account refers to. The error is a fault.
func (s *Archive) Past(ctx context.Context, accountID string, r *Request, take Take) (*Past, error) {
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	past := &Past{Referenced: map[string][]byte{}, take: take}
	room := s.room
	if r.Previous != "" {
		if err := s.conversation(ctx, accountID, r.Previous, past, &room); err != nil {
			return nil, err
		}
	}
	if ids := r.References(); len(ids) > 0 {
		if err := s.references(ctx, accountID, ids, past, &room); err != nil {
			return nil, err
		}
	}
	return past, nil
}

// conversation adds the items of a response and of those before it.
func (s *Archive) conversation(ctx context.Context, accountID, id string, past *Past, room *int64) error {
	links, err := s.store.FollowResponses(ctx, s.name(accountID, id), s.now(), maxTurns)
	if err != nil {
		return unavailable(err)
	}
	lost := func() error {
		return fault.New(fault.Invalid, "Previous response with id %s not found. It was not stored, was deleted, has expired, or is not of your account.", quote(id)).At("previous_response_id")
	}
	if len(links) == 0 {
		return lost()
	}
	last, before := links[len(links)-1], *room
	for _, l := range links {
		*room -= l.Size
	}
	switch {
	case *room < 0 || len(links) == maxTurns && len(last.Previous) > 0:
		return fault.New(fault.Invalid, "The conversation of the previous response %s is too long: at most %d responses and %d MiB. Begin a new one.", quote(id), maxTurns, s.room>>20).At("previous_response_id")
	case len(last.Previous) > 0:
		return fault.New(fault.Invalid, "An earlier response of the conversation of %s not found: it was deleted or has expired. Send the conversation in input.", quote(id)).At("previous_response_id")
	}
	if err := past.take.of(before - *room); err != nil {
		return err
	}
	ids := make([][]byte, len(links))
	for i, l := range links {
		ids[i] = l.ID
	}
	sealed, err := s.store.FindResponses(ctx, ids, s.now())
	if err != nil {
		return unavailable(err)
	}
	// The id of each response is in the one that follows it, so they are opened from the newest on.
	items := make([][][]byte, len(sealed))
	for i, raw := range sealed {
		if raw == nil || id == "" {
			return lost() // deleted meanwhile
		}
		kept, err := s.open(accountID, id, raw)
		if err != nil {
			return err
		}
		response := kept.Given("response")
		for _, list := range []chat.Value{kept.Given("input"), response.Given("output")} {
			for walk := list.Walk(); walk.Next(); {
				items[i] = append(items[i], walk.Value.Raw())
			}
		}
		id = response.Given("previous_response_id").Text()
	}
	for _, some := range slices.Backward(items) {
		past.Items = append(past.Items, some...)
	}
	return nil
}

// references adds the items with the ids. An id holds that of its response, so nothing has to be searched. Those that
// are not found are left out.
func (s *Archive) references(ctx context.Context, accountID string, ids []string, past *Past, room *int64) error {
	var (
		names   []string // of the responses
		keys    [][]byte
		seen    = map[string]bool{}
		missing = map[string]bool{}
	)
	for _, id := range ids {
		missing[id] = true
		_, rest, _ := strings.Cut(id, "_")
		request, _, ok := strings.Cut(rest, "_")
		if name := ResponseID(request); ok && !seen[name] {
			seen[name] = true
			names, keys = append(names, name), append(keys, s.name(accountID, name))
		}
	}
	// One after the other, since they may be large and only single items are wanted.
	sizes, err := s.store.SizeResponses(ctx, keys, s.now())
	if err != nil {
		return unavailable(err)
	}
	for i, name := range names {
		if sizes[i] == 0 {
			continue
		}
		kept, held, err := s.load(ctx, accountID, name, sizes[i], past.take)
		if fault.Is(err, fault.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		for walk := kept.Given("response").Given("output").Walk(); walk.Next(); {
			item := walk.Value
			if id := item.Given("id").Text(); missing[id] {
				if *room -= int64(len(item.Raw())); *room < 0 {
					return fault.New(fault.Invalid, "The items that input refers to are larger than %d MiB together.", s.room>>20).At("input")
				}
				if err := past.take.of(int64(len(item.Raw()))); err != nil {
					return err
				}
				past.Referenced[id] = bytes.Clone(item.Raw())
			}
		}
		_ = past.take.of(-held) // giving back cannot fail
	}
	return nil
}

// copies is how often a response is in memory while it is read: as the store's driver has it, and as it is returned.
const copies = 2

// load reads a response of a known size with its input. It returns how many bytes it has taken.
func (s *Archive) load(ctx context.Context, accountID, id string, size int64, take Take) (chat.Value, int64, error) {
	held := copies * size
	if err := take.of(held); err != nil {
		return chat.Value{}, 0, err
	}
	found, err := s.store.FindResponses(ctx, [][]byte{s.name(accountID, id)}, s.now())
	if err != nil {
		return chat.Value{}, 0, unavailable(err)
	}
	if found[0] == nil {
		return chat.Value{}, 0, notFound(id)
	}
	kept, err := s.open(accountID, id, found[0])
	return kept, held, err
}

// open decrypts a response, in place.
func (s *Archive) open(accountID, id string, sealed []byte) (chat.Value, error) {
	plain, err := s.box(accountID, id).OpenInPlace(sealed)
	if err != nil {
		return chat.Value{}, unavailable(fmt.Errorf("opening a response: %w", err))
	}
	return chat.ValueOf(plain), nil
}

// unavailable is the fault of a store that does not answer.
func unavailable(err error) error {
	return fault.New(fault.Unavailable, "Stored responses cannot be read now. Try again shortly.").After(time.Second).Because(err)
}

// Find returns the Response object with an id. The error is a fault.
func (s *Archive) Find(ctx context.Context, accountID, id string, take Take) ([]byte, error) {
	kept, err := s.find(ctx, accountID, id, take)
	if err != nil {
		return nil, err
	}
	return kept.Given("response").Raw(), nil
}

// Has returns a fault if there is no response with an id.
func (s *Archive) Has(ctx context.Context, accountID, id string) error {
	_, err := s.size(ctx, accountID, id)
	return err
}

// size returns the size of a response.
func (s *Archive) size(ctx context.Context, accountID, id string) (int64, error) {
	sizes, err := s.store.SizeResponses(ctx, [][]byte{s.name(accountID, id)}, s.now())
	if err != nil {
		return 0, unavailable(err)
	}
	if sizes[0] == 0 {
		return 0, notFound(id)
	}
	return sizes[0], nil
}

// find returns a response with its input.
func (s *Archive) find(ctx context.Context, accountID, id string, take Take) (chat.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	size, err := s.size(ctx, accountID, id)
	if err != nil {
		return chat.Value{}, err
	}
	kept, _, err := s.load(ctx, accountID, id, size, take)
	return kept, err
}

// notFound is the fault for a response that is not there.
func notFound(id string) error {
	return fault.New(fault.NotFound, "Response with id %s not found. It was not stored, was deleted, has expired, or is not of your account.", quote(id))
}

// quote returns an id for a message.
func quote(id string) string { return strconv.Quote(excerpt.Of(id, 100)) }

// Delete deletes a response. The error is a fault.
func (s *Archive) Delete(ctx context.Context, accountID, id string) error {
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	ok, err := s.store.DropResponse(ctx, accountID, s.name(accountID, id))
	if err != nil {
		return unavailable(err)
	}
	if !ok {
		return notFound(id)
	}
	return nil
}

// Forget deletes all responses of an account.
func (s *Archive) Forget(ctx context.Context, accountID string) error {
	return s.store.ForgetResponses(ctx, accountID)
}

// Page says which items of a list are wanted.
type Page struct {
	Limit     int    // at least 1
	After     string // the id of the item before the first; empty: from the beginning
	Ascending bool   // the oldest first
}

// Input returns the list of a response's input items as a JSON object, in pieces: items can be large, and are not copied.
// The error is a fault.
func (s *Archive) Input(ctx context.Context, accountID, id string, page Page, take Take) ([][]byte, error) {
	kept, err := s.find(ctx, accountID, id, take)
	if err != nil {
		return nil, err
	}
	var items []chat.Value
	for walk := kept.Given("input").Walk(); walk.Next(); {
		items = append(items, walk.Value)
	}
	// Callers may leave ids out, and lists must have them.
	name := func(i int) (own string, given bool) {
		if own = items[i].Given("id").Text(); own != "" {
			return own, true
		}
		return "item_" + strings.TrimPrefix(id, "resp_") + "_" + strconv.Itoa(i), false
	}
	step, at := -1, len(items)
	if page.Ascending {
		step, at = 1, -1
	}
	if page.After != "" {
		for at += step; at >= 0 && at < len(items); at += step {
			if own, _ := name(at); own == page.After {
				break
			}
		}
		if at < 0 || at >= len(items) {
			return nil, fault.New(fault.Invalid, "after must be the id of an input item of the response; got %s.", quote(page.After)).At("after")
		}
	}
	var first, last string
	list, n := [][]byte{[]byte(`{"object":"list","data":[`)}, 0
	for at += step; n < page.Limit && at >= 0 && at < len(items); at += step {
		own, given := name(at)
		if n++; n == 1 {
			first = own
		} else {
			list = append(list, []byte{','})
		}
		if last = own; given {
			list = append(list, items[at].Raw())
		} else {
			list = named(list, items[at], own)
		}
	}
	if n == 0 {
		return append(list, []byte(`],"first_id":null,"last_id":null,"has_more":false}`)), nil
	}
	b := jsonscan.AppendQuoted([]byte(`],"first_id":`), first)
	b = jsonscan.AppendQuoted(append(b, `,"last_id":`...), last)
	b = strconv.AppendBool(append(b, `,"has_more":`...), at >= 0 && at < len(items))
	return append(list, append(b, '}')), nil
}

// named appends an object to a list of pieces, with an id and a type if it has none.
func named(list [][]byte, v chat.Value, id string) [][]byte {
	b := jsonscan.AppendQuoted([]byte(`{"id":`), id)
	if !v.Given("type").Exists() {
		b = append(b, `,"type":"message"`...)
	}
	for walk := v.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if key != "id" {
			list = append(list, append(jsonscan.AppendQuoted(append(b, ','), key), ':'), m.Raw())
			b = nil
		}
	}
	return append(list, append(b, '}'))
}
