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

	"sluice/internal/excerpt"
	"sluice/internal/fault"
)

// bodies reads request bodies and bounds the memory they take: each body, those of one caller, and all
// together. Bytes are charged as they arrive, whatever length was announced. See docs/api.md#bodies.
type bodies struct {
	maxOne, maxAll int64
	maxAccount     int64 // held at once for one account
	maxStrangers   int64 // held at once for all callers without an account: forms, webhooks
	maxStranger    int64 // held at once for one address of such a caller
	patience       time.Duration
	total          time.Duration

	held      atomic.Int64
	strangers atomic.Int64
	seed      maphash.Seed
	callers   [64]callerShares // by the hash of who pays
}

// callerShares is what some of the callers hold. Who holds nothing has no entry.
type callerShares struct {
	mu   sync.Mutex
	held map[string]int64
}

const (
	// lingering is how long, and lingeringBytes how much, a refused request may go on sending.
	lingering      = 5 * time.Second
	lingeringBytes = maxBody

	// minRate is the fewest bytes a second, on average over bodies.patience, at which a body may arrive.
	minRate = 1 << 10

	// waitingCost is what a caller without an account is charged for a request whose body we wait for.
	waitingCost = 32 << 10

	// firstBuffer is the most that is allocated before any byte has arrived.
	firstBuffer = 64 << 10
)

// arrival is a request's body on its way in. It holds the sender to a minimum rate with nothing but the
// connection's read deadline: the deadline moves each time that as many bytes have come as the rate asks
// for, so most bodies set it once and clear it once.
type arrival struct {
	src     io.ReadCloser // net/http's
	x       *exchange
	limits  *bodies
	end     time.Time // when the whole body must be here
	window  int64     // bytes since the deadline was moved
	charged int64     // bytes charged to a caller without an account
	whole   bool      // the end was seen
}

// expect puts the request's body under the bounds of time. It must be called before anybody reads: net/http
// itself waits for an announced body before it sends the reply of a handler that did not read it.
func (b *bodies) expect(x *exchange, r *http.Request) {
	if !hasBody(r) {
		return
	}
	now := time.Now()
	x.body = arrival{src: r.Body, x: x, limits: b, end: now.Add(b.total)}
	r.Body = &x.body
	x.body.setDeadline(now)
}

func (a *arrival) setDeadline(now time.Time) {
	until := now.Add(a.limits.patience)
	if until.After(a.end) {
		until = a.end
	}
	_ = http.NewResponseController(a.x.ResponseWriter).SetReadDeadline(until) // in process there is none
}

// Read implements io.Reader. A body that is too slow ends with a fault of the kind Timeout.
func (a *arrival) Read(p []byte) (int, error) {
	stranger := a.x.caller.Account == nil
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

// arrived ends the deadline: what net/http reads from now on is not the body, and a deadline that passes
// there would look like a caller who hung up.
func (a *arrival) arrived() {
	if !a.whole {
		a.whole = true
		_ = http.NewResponseController(a.x.ResponseWriter).SetReadDeadline(time.Time{})
	}
}

func (a *arrival) tooSlow(cause error) error {
	if !time.Now().Before(a.end) {
		return fault.New(fault.Timeout, "The request body was not complete after %s. Send it faster, or send less.", a.limits.total).Because(cause)
	}
	return fault.New(fault.Timeout, "The request body arrived too slowly: less than %d bytes a second over %s. Send it again.", minRate, a.limits.patience).Because(cause)
}

// charge counts bytes of a caller without an account, by the address they come from.
func (a *arrival) charge(n int64) error {
	b := a.limits
	a.charged += n
	all, one := b.strangers.Add(n), b.add("@"+a.x.event.Remote, n)
	if all > b.maxStrangers || one > b.maxStranger {
		a.release() // nobody keeps the bytes
		return errBusy()
	}
	return nil
}

// release gives back what charge took.
func (a *arrival) release() {
	if a.charged != 0 {
		a.limits.strangers.Add(-a.charged)
		a.limits.add("@"+a.x.event.Remote, -a.charged)
		a.charged = 0
	}
}

// add changes what a caller holds and returns the new amount.
func (b *bodies) add(who string, n int64) int64 {
	s := &b.callers[maphash.String(b.seed, who)%uint64(len(b.callers))]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.held[who] + n
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

// finish reads on for a moment after a request was answered early. A client that writes its whole request
// before it reads gets its answer so, and the connection can serve the next request. One that stays silent,
// or does not stop, is cut off; net/http would wait for it without end.
func (b *bodies) finish(x *exchange, r *http.Request) {
	if x.body.src == nil || x.body.whole || r.ProtoMajor != 1 {
		return
	}
	rc := http.NewResponseController(x.ResponseWriter)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(min(b.patience, lingering))) != nil {
		return
	}
	// Where a reply had begun before it failed, net/http has closed the body with the reply's first byte.
	n, err := io.Copy(io.Discard, io.LimitReader(x.body.src, lingeringBytes))
	if err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) || n == lingeringBytes {
		panic(http.ErrAbortHandler)
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// share is what one body takes of the bounds.
type share struct {
	of    *bodies
	who   string // the account; empty: nobody is charged
	taken int64
}

// take asks for n more bytes. What was taken must be released, also after a refusal.
func (s *share) take(n int64) error {
	s.taken += n
	all := s.of.held.Add(n)
	if s.who != "" && s.of.add(s.who, n) > s.of.maxAccount {
		return fault.New(fault.RateLimited, "The bodies of this account's running requests would take more than %d MiB, the most at once. One of them must end first.", s.of.maxAccount>>20).After(time.Second)
	}
	if all > s.of.maxAll {
		return errBusy()
	}
	return nil
}

func (s *share) release() {
	s.of.held.Add(-s.taken)
	if s.who != "" {
		s.of.add(s.who, -s.taken)
	}
}

// read returns the whole JSON body and a function that gives its share of the bounds back; call it when the
// body is no longer needed. The buffer grows with what arrives: a small body of known length is one
// allocation of its size, and nobody gets memory for an announcement.
func (b *bodies) read(x *exchange, r *http.Request) ([]byte, func(), error) {
	return b.readUpTo(b.maxOne, x, r)
}

// readUpTo is read for an operation that takes at most so many bytes.
func (b *bodies) readUpTo(most int64, x *exchange, r *http.Request) ([]byte, func(), error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, nil, err
	}
	if r.ContentLength > most {
		return nil, nil, tooLarge(most)
	}
	s := &share{of: b}
	if x.caller.Account != nil {
		s.who = x.caller.Account.ID
	}
	buf, err := collect(s, most, r)
	if err != nil {
		s.release()
		return nil, nil, err
	}
	if x.body.src != nil {
		x.body.arrived() // HTTP/2 tells the end of a body of known length in a read of its own
	}
	return buf, s.release, nil
}

func collect(s *share, most int64, r *http.Request) ([]byte, error) {
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
			if size == most {
				return buf, checkEnd(r.Body, most)
			}
			next := min(2*size, most)
			if r.ContentLength >= 0 {
				next = min(next, r.ContentLength)
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

// checkEnd refuses a body that goes on when as much has come as may.
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

func tooLarge(most int64) error {
	return fault.New(fault.TooLarge, "The request body is larger than %d MiB, the most that is accepted.", most>>20)
}

func errBusy() error {
	return fault.New(fault.Unavailable, "Too many large requests are being handled at once. Try again shortly.").After(time.Second)
}

func readFault(err error) error {
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	return fault.New(fault.Invalid, "The request body ended before it was complete.").Because(err)
}

// checkContentType takes JSON, and a request that does not say what it is, for JSON.
func checkContentType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fault.New(fault.Invalid, "Content-Encoding %q is not accepted; send the body as plain JSON.", excerpt.Of(enc, maxEcho))
	}
	ct := h.Get("Content-Type")
	if ct == "" || ct == "application/json" { // what nearly all send, and cheaper than parsing it
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

func isUTF8(charset string) bool {
	switch strings.ToLower(charset) {
	case "utf-8", "utf8", "us-ascii":
		return true
	}
	return false
}
