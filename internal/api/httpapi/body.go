package httpapi

import (
	"errors"
	"hash/maphash"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
)

// bodies reads request bodies and limits the memory they take: for one body, for one caller,
// and in total. Bytes are charged as they arrive, whatever Content-Length announced. See
// docs/api.md#bodies.
type bodies struct {
	maxOne, maxAll int64
	// maxAccount is the maximum for one account.
	maxAccount int64
	// maxStrangers is the maximum for all callers without an account (forms, webhooks), and
	// maxStranger for one address of them.
	maxStrangers int64
	maxStranger  int64
	patience     time.Duration
	total        time.Duration

	held      atomic.Int64
	strangers atomic.Int64
	seed      maphash.Seed
	// callers holds the bytes of each caller, by the hash of its name.
	callers [64]callerShares
}

// callerShares holds the bytes of the callers with one hash value. 64 of them keep callers
// from waiting for each other's lock. Callers that hold nothing have no entry.
type callerShares struct {
	mu   sync.Mutex
	held map[string]int64
}

const (
	// lingering and lingeringBytes limit how long, and how much, a refused request may go on
	// sending.
	lingering      = 5 * time.Second
	lingeringBytes = maxBody

	// minRate is the minimum average rate of a body, in bytes per second, over
	// bodies.patience.
	minRate = 1 << 10

	// waitingCost is charged to a caller without an account for each request whose body we
	// wait for. It stands for the connection and its buffers, so that many empty bodies are
	// limited, too.
	waitingCost = 32 << 10

	// firstBuffer is the most that is allocated before any byte has arrived. A large
	// Content-Length alone gets no memory.
	firstBuffer = 64 << 10
)

// arrival is a request body that is still arriving. It enforces the minimum rate with the
// connection's read deadline alone: the deadline moves each time enough bytes for the rate
// have arrived, so most bodies set it once and clear it once.
type arrival struct {
	// src is the body of net/http. It is nil if the request has none.
	src    io.ReadCloser
	x      *exchange
	limits *bodies
	// end is when the whole body must have arrived.
	end time.Time
	// window is the number of bytes since the deadline was last moved.
	window int64
	// charged is the number of bytes that were charged to a caller without an account.
	charged int64
	// whole reports whether the end of the body was seen.
	whole bool
}

// expect puts the request body under the time limits. It must be called before anything reads
// the body: net/http itself waits for an announced body before it sends the reply of a handler
// that did not read it.
func (b *bodies) expect(x *exchange, r *http.Request) {
	if !hasBody(r) {
		return
	}
	now := time.Now()
	x.event.Start = now
	x.body = arrival{src: r.Body, x: x, limits: b, end: now.Add(b.total)}
	r.Body = &x.body
	x.body.setDeadline(now)
}

// setDeadline gives the body another patience, but not beyond its end.
func (a *arrival) setDeadline(now time.Time) {
	until := now.Add(a.limits.patience)
	if until.After(a.end) {
		until = a.end
	}
	_ = http.NewResponseController(a.x.ResponseWriter).SetReadDeadline(until) // in-process requests have no connection
}

// Read implements io.Reader. If the body is too slow it returns a fault of kind Timeout. If
// the caller has no account and holds too much already, it returns a fault of kind
// Unavailable.
func (a *arrival) Read(p []byte) (int, error) {
	stranger := a.x.caller.Account == nil
	// Charged before the first byte, so that connections which send nothing count as well.
	if stranger && a.charged == 0 {
		if full := a.charge(waitingCost); full != nil {
			return 0, full
		}
	}
	n, err := a.src.Read(p)
	a.window += int64(n)
	if stranger {
		if full := a.charge(int64(n)); full != nil {
			return 0, full
		}
	}
	switch {
	case err == nil:
		// Moving the deadline costs a timer change, so it moves only once per quota of bytes.
		if a.window >= int64(a.limits.patience)*minRate/int64(time.Second) {
			a.window = 0
			a.setDeadline(time.Now())
		}
	case errors.Is(err, io.EOF):
		a.arrived()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = a.tooSlow(err)
	}
	return n, err
}

// Close implements io.Closer.
func (a *arrival) Close() error { return a.src.Close() }

// arrived clears the deadline. net/http keeps reading the connection after the body to notice
// a disconnect; a deadline that expires then would look like one.
func (a *arrival) arrived() {
	if !a.whole {
		a.whole = true
		_ = http.NewResponseController(a.x.ResponseWriter).SetReadDeadline(time.Time{})
	}
}

// tooSlow tells which of the two limits was exceeded: the total time or the rate.
func (a *arrival) tooSlow(cause error) error {
	if !time.Now().Before(a.end) {
		return fault.New(fault.Timeout, "The request body was incomplete after %s. Send it faster, or send a smaller one.", a.limits.total).Because(cause)
	}
	return fault.New(fault.Timeout, "The request body arrived too slowly: less than %d bytes a second over %s. Send it again.", minRate, a.limits.patience).Because(cause)
}

// charge counts bytes of a caller without an account, by its address. If a limit is exceeded
// it releases everything charged so far and returns an error.
func (a *arrival) charge(n int64) error {
	b := a.limits
	a.charged += n
	all, one := b.strangers.Add(n), b.add("@"+a.x.event.Remote, n)
	if all > b.maxStrangers || one > b.maxStranger {
		a.release() // the body is dropped
		return errBusy()
	}
	return nil
}

// release returns the bytes that charge counted. It may be called more than once.
func (a *arrival) release() {
	if a.charged != 0 {
		a.limits.strangers.Add(-a.charged)
		a.limits.add("@"+a.x.event.Remote, -a.charged)
		a.charged = 0
	}
}

// add changes the number of bytes that a caller holds by n and returns the new number.
// Accounts are named by their id, addresses with a leading "@".
func (b *bodies) add(who string, n int64) int64 {
	s := &b.callers[maphash.String(b.seed, who)%uint64(len(b.callers))]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.held[who] + n
	// Entries must not accumulate: addresses of strangers are unbounded.
	if now == 0 {
		delete(s.held, who)
		return 0
	}
	if s.held == nil {
		s.held = map[string]int64{}
	}
	s.held[who] = now
	return now
}

// finish reads the rest of the body for a moment after a request was answered early. A client
// that writes its whole request before it reads then gets the reply, and the connection can be
// reused. A client that stays silent or does not stop is disconnected; net/http would wait for
// it forever.
func (b *bodies) finish(x *exchange, r *http.Request) {
	// HTTP/2 resets only the one stream, so nothing needs to be read.
	if x.body.src == nil || x.body.whole || r.ProtoMajor != 1 {
		return
	}
	rc := http.NewResponseController(x.ResponseWriter)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(min(b.patience, lingering))) != nil {
		return
	}
	// If a reply had started before it failed, net/http has closed the body with the reply's
	// first byte.
	n, err := io.Copy(io.Discard, io.LimitReader(x.body.src, lingeringBytes))
	if err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) || n == lingeringBytes {
		panic(http.ErrAbortHandler)
	}
}

// hasBody reports whether the request has a body. Requests in process may have a nil Body.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// share is the part of the limits that one body uses, or a reply that is as large.
type share struct {
	of *bodies
	// who is the account's id. If empty, only the total is charged.
	who    string
	taken  int64
	copies int64 // how often each byte is charged
}

// take reserves room for n more bytes of the body, or gives back -n. The caller must call release in the end, even after
// an error.
func (s *share) take(n int64) error {
	n *= s.copies
	s.taken += n
	all := s.of.held.Add(n)
	if s.who != "" && s.of.add(s.who, n) > s.of.maxAccount && n > 0 {
		return fault.New(fault.RateLimited, "The running requests of this account would hold more than %d MiB of bodies and stored responses, the maximum at a time. Read the replies, or wait until one of them has ended.", s.of.maxAccount>>20).After(time.Second)
	}
	if all > s.of.maxAll && n > 0 {
		return errBusy()
	}
	return nil
}

// release returns everything that take reserved. It must be called exactly once.
func (s *share) release() {
	s.of.held.Add(-s.taken)
	if s.who != "" {
		s.of.add(s.who, -s.taken)
	}
}

// read returns the whole JSON body and a function that returns its share of the limits. Call
// the function when the body is no longer needed. The buffer grows with the bytes that arrive:
// a small body of known length takes one allocation of its size.
func (b *bodies) read(x *exchange, r *http.Request) ([]byte, func(), error) {
	return b.readUpTo(b.maxOne, 1, x, r)
}

// readTranslated is read for a door whose requests are translated: the body and its translation are held at the same
// time.
func (b *bodies) readTranslated(x *exchange, r *http.Request) ([]byte, func(), error) {
	return b.readUpTo(b.maxOne, 2, x, r)
}

// readUpTo is like read for an operation that accepts at most most bytes. Each byte is charged copies times, for
// operations that hold a body more than once while they decode it.
func (b *bodies) readUpTo(most, copies int64, x *exchange, r *http.Request) ([]byte, func(), error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, nil, err
	}
	if r.ContentLength > most {
		return nil, nil, tooLarge(most)
	}
	s := &share{of: b, copies: copies}
	if x.caller.Account != nil {
		s.who = x.caller.Account.ID
	}
	buf, err := collect(s, most, r)
	x.wait.Read(time.Now()) // a caller who is slow to send is not our overhead
	if err != nil {
		s.release()
		return nil, nil, err
	}
	if x.body.src != nil {
		// HTTP/2 reports the end of a body of known length in a separate read, which collect
		// does not make.
		x.body.arrived()
	}
	return buf, s.release, nil
}

// largeBody is the size from which a body waits for its turn to be decoded.
const largeBody = 256 << 10

// decoded returns what parse makes of a body. A large one waits for its turn: what is made of it can take several times
// its size, and nobody has paid for it yet.
func decoded[T any](a *API, x *exchange, r *http.Request, body []byte, parse func([]byte) (T, error)) (T, error) {
	if len(body) >= largeBody && x.caller.Account != nil {
		done, err := a.reads.Decode(r.Context(), x.caller.Account.ID)
		if err != nil {
			var none T
			return none, goneOr(relay.Ended(r.Context()))
		}
		defer done()
	}
	return parse(body)
}

// weigh charges what a large body was decoded to. It returns what releases that together with the body.
func (a *API) weigh(x *exchange, body []byte, req *chat.Request, release func()) (func(), error) {
	if len(body) < largeBody {
		return release, nil
	}
	take, giveBack := a.Hold(x.caller.Account.ID)
	return func() { giveBack(); release() }, take(req.Weight())
}

// collect reads the body into a buffer that grows fourfold as it fills, and at the end up to eightfold: a caller
// holds at most eight times what it has sent, and a body whose length is known is copied a third of a time at most.
// Each step is reserved before it is allocated.
func collect(s *share, most int64, r *http.Request) ([]byte, error) {
	// The start for a body of unknown length.
	size := int64(4 << 10)
	if r.ContentLength >= 0 {
		size = min(r.ContentLength, firstBuffer)
	}
	if err := s.take(size); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == r.ContentLength {
				return buf, nil
			}
			// The buffer is full at the maximum size; only the end may follow.
			if size == most {
				return buf, checkEnd(r.Body, most)
			}
			next := min(4*size, most)
			// The last step is a long one: another one for what is left would copy all of it again.
			if r.ContentLength >= 0 && r.ContentLength <= 8*size {
				next = min(r.ContentLength, most)
			}
			if err := s.take(next - size); err != nil {
				return nil, err
			}
			size = next
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), len(buf)+64<<10)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, readFault(err)
		}
	}
}

// checkEnd returns an error if the body continues after most bytes.
func checkEnd(body io.Reader, most int64) error {
	var more [1]byte
	switch _, err := io.ReadFull(body, more[:]); {
	case err == nil:
		return tooLarge(most)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return readFault(err)
	}
}

// tooLarge is the fault of a body above a limit that is a whole number of MiB.
func tooLarge(most int64) error {
	return fault.New(fault.TooLarge, "The request body is larger than %d MiB, the maximum size.", most>>20)
}

// errBusy is the fault when all bodies together, or those of callers without an account, take
// too much memory. It is temporary, so it asks for a retry.
func errBusy() error {
	return fault.New(fault.Unavailable, "Too many large requests are being handled at once. Try again shortly.").After(time.Second)
}

// readFault turns an error of reading the body into a fault. An arrival returns faults
// already.
func readFault(err error) error {
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	return fault.New(fault.Invalid, "The request body was cut off before its end.").Because(err)
}

// checkContentType accepts JSON in UTF-8, and requests without a Content-Type, which are taken
// to be JSON.
func checkContentType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fault.New(fault.Invalid, "Content-Encoding %q is not accepted; send the body as plain JSON.", excerpt.Of(enc, maxEcho))
	}
	ct := h.Get("Content-Type")
	// Nearly all requests send this, and comparing is cheaper than parsing.
	if ct == "" || ct == "application/json" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(ct)
	if err != nil || kind != "application/json" {
		return fault.New(fault.Invalid, "Content-Type %q is not accepted; send application/json.", excerpt.Of(ct, maxEcho))
	}
	if cs := params["charset"]; cs != "" && !isUTF8(cs) {
		return fault.New(fault.Invalid, "charset %q is not accepted; JSON is UTF-8.", excerpt.Of(cs, maxEcho))
	}
	return nil
}

// isUTF8 reports whether a charset is UTF-8 or a subset of it.
func isUTF8(charset string) bool {
	switch strings.ToLower(charset) {
	case "utf-8", "utf8", "us-ascii":
		return true
	}
	return false
}
