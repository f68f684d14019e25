package httpserver

import (
	"bytes"
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
)

const (
	maxBody           = 32 << 20
	maxBodies         = 512 << 20
	maxAccountBodies  = 64 << 20
	maxStrangerBodies = 32 << 20
	maxAddressBodies  = 4 << 20
	bodyPatience      = 30 * time.Second
	bodyTotal         = 10 * time.Minute
)

// Limits bound request bodies: how much memory they take, and how slowly they may arrive (docs/api.md#bodies).
type Limits struct {
	// One is the maximum size of one body, and All of all bodies that are being read or answered.
	One, All int64
	// Account is the maximum for all bodies of one account.
	Account int64
	// Strangers is the maximum for all bodies without an account, such as forms and webhooks, and Address for those
	// from one address.
	Strangers, Address int64
	// Patience is the period over which the minimum rate of a body is measured, and Total the maximum time for a whole
	// body.
	Patience, Total time.Duration
}

// Bodies reads request bodies and holds them to the limits. Bytes are charged as they arrive, whatever Content-Length
// announced. It is safe for concurrent use. Only tests
// change the limits, before the first request.
type Bodies struct {
	Limits
	held      atomic.Int64
	strangers atomic.Int64
	seed      maphash.Seed
	// first holds buffers of firstBuffer bytes, for the beginnings of long bodies.
	first sync.Pool
	// callers holds the bytes of each caller, by the hash of its name.
	callers [64]callerShares
}

// NewBodies returns Bodies with the usual limits.
func NewBodies() *Bodies {
	return &Bodies{seed: maphash.MakeSeed(), Limits: Limits{
		One: maxBody, All: maxBodies, Account: maxAccountBodies, Strangers: maxStrangerBodies, Address: maxAddressBodies,
		Patience: bodyPatience, Total: bodyTotal,
	}}
}

// Held returns how many bytes of bodies are held in memory.
func (b *Bodies) Held() int64 { return b.held.Load() }

// callerShares holds the bytes of the callers with one hash value. 64 of them keep callers
// from waiting for each other's lock. Callers that hold nothing have no entry.
type callerShares struct {
	mu   sync.Mutex
	held map[string]int64
}

const (
	// lingering and lingeringBytes limit how long, and how much, a refused request may keep
	// sending.
	lingering      = 5 * time.Second
	lingeringBytes = maxBody

	// minRate is the minimum average rate of a body, in bytes per second, over
	// Limits.Patience.
	minRate = 1 << 10

	// waitingCost is charged to a caller without an account for each request whose body we
	// wait for. It stands for the connection and its buffers, so that many empty bodies are
	// limited, too.
	waitingCost = 32 << 10

	// firstBuffer is the most that is allocated before any byte has arrived. A large
	// Content-Length alone gets no memory.
	firstBuffer = 64 << 10
)

// Body is a request body that is still arriving. Its zero value is that of a request without one. It enforces the
// minimum rate with the connection's read deadline alone: the deadline moves each time enough bytes for the rate have
// arrived, so most bodies set it once and clear it once.
type Body struct {
	// Account is the id of the account that the body is charged to, once it is known. Until then Address is charged.
	Account, Address string

	src    io.ReadCloser       // the body of net/http; nil if the request has none
	conn   http.ResponseWriter // of the request, for its deadlines
	limits *Bodies
	end    time.Time // when the whole body must have arrived
	window int64     // bytes since the deadline was last moved
	// charged is the number of bytes that were charged to a caller without an account.
	charged int64
	whole   bool // the end of the body was seen
}

// Expect puts the body of a request that has one under the limits. It must be called before anything reads the body:
// net/http itself waits for an announced body before it sends the reply of a handler that did not read it. The caller
// calls Release when the request has ended.
func (b *Bodies) Expect(body *Body, w http.ResponseWriter, r *http.Request, now time.Time) {
	*body = Body{src: r.Body, conn: w, limits: b, end: now.Add(b.Total)}
	r.Body = body
	body.setDeadline(now)
}

// setDeadline gives the body another patience, but not beyond its end.
func (a *Body) setDeadline(now time.Time) {
	until := now.Add(a.limits.Patience)
	if until.After(a.end) {
		until = a.end
	}
	_ = http.NewResponseController(a.conn).SetReadDeadline(until) // in-process requests have no connection
}

// Read implements io.Reader. If the body is too slow it returns a fault of kind Timeout. If
// the caller has no account and holds too much already, it returns a fault of kind
// Unavailable.
func (a *Body) Read(p []byte) (int, error) {
	stranger := a.Account == ""
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
		if a.window >= int64(a.limits.Patience)*minRate/int64(time.Second) {
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
func (a *Body) Close() error { return a.src.Close() }

// arrived clears the deadline. net/http keeps reading the connection after the body to notice
// a disconnect; a deadline that expires then would look like one.
func (a *Body) arrived() {
	if !a.whole {
		a.whole = true
		_ = http.NewResponseController(a.conn).SetReadDeadline(time.Time{})
	}
}

// tooSlow tells which of the two limits was exceeded: the total time or the rate.
func (a *Body) tooSlow(cause error) error {
	if !time.Now().Before(a.end) {
		return fault.New(fault.Timeout, "The request body was incomplete after %s. Send it faster, or send a smaller one.", a.limits.Total).Because(cause)
	}
	return fault.New(fault.Timeout, "The request body arrived too slowly: less than %d bytes a second over %s. Send it again.", minRate, a.limits.Patience).Because(cause)
}

// charge counts bytes of a caller without an account, by its address. If a limit is exceeded
// it releases everything charged so far and returns an error.
func (a *Body) charge(n int64) error {
	b := a.limits
	a.charged += n
	all, one := b.strangers.Add(n), b.add("@"+a.Address, n)
	if all > b.Strangers || one > b.Address {
		a.Release() // the body is dropped
		return errBusy()
	}
	return nil
}

// Release returns the bytes that were charged to the address. It may be called more than once.
func (a *Body) Release() {
	if a.charged != 0 {
		a.limits.strangers.Add(-a.charged)
		a.limits.add("@"+a.Address, -a.charged)
		a.charged = 0
	}
}

// add changes the number of bytes that a caller holds by n and returns the new number.
// Accounts are named by their id, addresses with a leading "@".
func (b *Bodies) add(who string, n int64) int64 {
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

// Finish reads the rest of the body for a moment after a request was answered early. A client
// that writes its whole request before it reads then gets the reply, and the connection can be
// reused. A client that stays silent or does not stop is disconnected; net/http would wait for
// it forever.
func (a *Body) Finish(r *http.Request) {
	// HTTP/2 resets only the one stream, so nothing needs to be read.
	if a.src == nil || a.whole || r.ProtoMajor != 1 {
		return
	}
	rc := http.NewResponseController(a.conn)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(min(a.limits.Patience, lingering))) != nil {
		return
	}
	// If a reply had started before it failed, net/http has closed the body with the reply's
	// first byte.
	n, err := io.Copy(io.Discard, io.LimitReader(a.src, lingeringBytes))
	if err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) || n == lingeringBytes {
		panic(http.ErrAbortHandler)
	}
}

// HasBody reports whether the request has a body. Requests in process may have a nil Body.
func HasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// share is the part of the limits that one body uses, or a reply that is as large.
type share struct {
	of *Bodies
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
	if s.who != "" && s.of.add(s.who, n) > s.of.Account && n > 0 {
		return fault.New(fault.RateLimited, "The running requests of this account would hold more than %d MiB of bodies and stored responses, the maximum at a time. Read the replies, or wait until one of them has ended.", s.of.Account>>20).After(time.Second)
	}
	if all > s.of.All && n > 0 {
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

// Hold returns how a reply to an account is charged to the account's share of the limits: what is taken, before it is
// read, is given back by release. A negative number gives some of it back earlier.
func (b *Bodies) Hold(accountID string) (take func(n int64) error, release func()) {
	held := &share{of: b, who: accountID, copies: 1}
	return held.take, held.release
}

// Read returns the whole JSON body of at most most bytes, and a function that returns its share of the limits. Call
// the function when the body is no longer needed. The buffer grows with the bytes that arrive: a small body of known
// length takes one allocation of its size. Each byte is charged copies times, for operations that hold a body more than
// once while they decode it.
func (b *Bodies) Read(body *Body, r *http.Request, most, copies int64) ([]byte, func(), error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, nil, err
	}
	return b.read(body, r, most, copies)
}

// ReadForm is Read for operations that take a form, multipart/form-data, as well as JSON.
func (b *Bodies) ReadForm(body *Body, r *http.Request, most, copies int64) ([]byte, func(), error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "multipart/form-data" || r.Header.Get("Content-Encoding") != "" {
		return b.Read(body, r, most, copies)
	}
	return b.read(body, r, most, copies)
}

// read reads a body of any type.
func (b *Bodies) read(body *Body, r *http.Request, most, copies int64) ([]byte, func(), error) {
	if r.ContentLength > most {
		return nil, nil, tooLarge(most)
	}
	s := &share{of: b, who: body.Account, copies: copies}
	buf, err := collect(s, most, r)
	if err != nil {
		s.release()
		return nil, nil, err
	}
	if body.src != nil {
		// HTTP/2 reports the end of a body of known length in a separate read, which collect
		// does not make.
		body.arrived()
	}
	return buf, s.release, nil
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
	var buf []byte
	var lent *[firstBuffer]byte // what buf is, as long as it is not the body's own
	if r.ContentLength > firstBuffer {
		lent, _ = s.of.first.Get().(*[firstBuffer]byte)
		if lent == nil {
			lent = new([firstBuffer]byte)
		}
		defer s.of.first.Put(lent)
		buf = lent[:0]
	} else {
		buf = make([]byte, 0, size)
	}
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
			buf, lent = append(make([]byte, 0, size), buf...), nil
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			if lent != nil { // the body is shorter than it was announced
				buf = bytes.Clone(buf)
			}
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

// readFault turns an error of reading the body into a fault. A Body returns faults
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
