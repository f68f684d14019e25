package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/fault"
)

// bodies reads request bodies within two bounds: one for each, one for all that are held at once.
type bodies struct {
	maxOne, maxAll int64
	patience       time.Duration // how long a client may be silent
	held           atomic.Int64
}

// lingering is how long a refused request may go on sending.
const lingering = 5 * time.Second

// expect bounds the wait for a body that is announced, whoever waits for it: net/http does so itself
// before the reply to a request whose body nobody reads.
func (b *bodies) expect(w http.ResponseWriter, r *http.Request) {
	if hasBody(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.patience))
	}
}

// finish takes in, for a moment, what an answered request still sends: a client that writes before it
// reads gets its answer so, and the connection can serve the next request. One that stays silent, or
// does not stop, is cut off; net/http would wait for it without end.
func (b *bodies) finish(w http.ResponseWriter, r *http.Request) {
	if !hasBody(r) || r.ProtoMajor != 1 {
		return
	}
	rc := http.NewResponseController(w)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(min(b.patience, lingering))) != nil {
		return
	}
	// Where a reply had begun before it failed, net/http has closed the body with the reply's first byte.
	if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
		panic(http.ErrAbortHandler)
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// read returns the whole JSON body and a function that gives its share of the bound back; call it
// when the body is no longer needed.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) ([]byte, func(), error) {
	if err := checkContentType(r.Header); err != nil {
		return nil, nil, err
	}
	if r.ContentLength > b.maxOne {
		return nil, nil, b.tooLarge()
	}
	var taken int64
	release := func() { b.held.Add(-taken) }
	take := func(n int64) bool {
		taken += n
		return b.held.Add(n) <= b.maxAll
	}
	size := r.ContentLength
	if size < 0 {
		size = 4 << 10 // grows as it comes
	}
	if !take(size) {
		release()
		return nil, nil, errBusy()
	}
	buf := make([]byte, 0, size)
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == r.ContentLength {
				return buf, release, nil
			}
			grow := int64(cap(buf))
			if !take(grow) {
				release()
				return nil, nil, errBusy()
			}
			buf = append(make([]byte, 0, 2*grow), buf...)
		}
		if len(buf) > 0 { // a client may be slow, not silent; for the first read expect has set it
			_ = rc.SetReadDeadline(time.Now().Add(b.patience))
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), len(buf)+64<<10)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > b.maxOne {
			release()
			return nil, nil, b.tooLarge()
		}
		if errors.Is(err, io.EOF) {
			return buf, release, nil
		}
		if err != nil {
			release()
			return nil, nil, b.readFault(err)
		}
	}
}

func (b *bodies) tooLarge() error {
	return fault.New(fault.TooLarge, "The request body is larger than %d MiB, the most that is accepted.", b.maxOne>>20)
}

func errBusy() error {
	return fault.New(fault.Unavailable, "Too many large requests are being handled at once. Try again shortly.").After(time.Second)
}

func (b *bodies) readFault(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.New(fault.Invalid, "The request body did not arrive: nothing came for %d seconds.", int(b.patience.Seconds())).Because(err)
	}
	return fault.New(fault.Invalid, "The request body ended before it was complete.").Because(err)
}

// checkContentType takes JSON, and a request that does not say what it is, for JSON.
func checkContentType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fault.New(fault.Invalid, "Content-Encoding %q is not accepted; send the body as plain JSON.", clip(enc))
	}
	ct := h.Get("Content-Type")
	if ct == "" || ct == "application/json" { // what nearly all send, and cheaper than parsing it
		return nil
	}
	kind, params, err := mime.ParseMediaType(ct)
	if err != nil || kind != "application/json" {
		return fault.New(fault.Invalid, "Content-Type %q is not accepted; send application/json.", clip(ct))
	}
	if cs := params["charset"]; cs != "" && !isUTF8(cs) {
		return fault.New(fault.Invalid, "charset %q is not accepted; JSON is UTF-8.", clip(cs))
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
