package lane

import (
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// collectMost is how much of a reply is collected before it is sent. A shorter reply gets a
	// Content-Length if its handler has set none; a longer one is sent in chunks.
	collectMost = 16 << 10
	// chunkRoom is reserved in front of the data of a chunk for the line with its size. Four
	// digits are enough for what is collected.
	chunkRoom = len("ffff\r\n")
	// outSize is the size of a new write buffer, and outMost that of the largest one that is used
	// again.
	outSize = 4 << 10
	outMost = 32 << 10
	// overrun is what is left of the Content-Length after an attempt to write more. As in net/http,
	// nothing more can be written, and the connection ends with the reply.
	overrun = -2
)

// reply is the reply under way. It is the http.ResponseWriter of the handler, and implements what
// http.ResponseController needs. Like that of net/http it is used by one goroutine at a time.
//
// It goes through three states. First the handler sets the header and the status. Then the body is
// collected in out, without a head. When out is full, or the handler flushes or returns, start
// writes the head, chooses the framing, and from then on out holds what goes on the wire.
type reply struct {
	conn   *conn
	header http.Header
	keys   []string // of the last reply's header, sorted

	isHead bool // the request's method is HEAD
	status int
	left   int64 // bytes missing of the Content-Length that the handler has set, -1 if it has set none, or overrun
	begun  bool  // the head was written
	// After begun: the body is sent in chunks, or not at all, or as it is.
	chunked, bare bool
	trailers      []string // names of the fields that follow the body, which the Trailer header has announced
	closes        bool     // the connection ends with this reply
	duplex        bool     // the handler reads the request after the reply has begun
	err           error

	// out holds what is to be sent: before begun the body, afterwards the bytes on the wire. It is
	// nil while there is nothing, so that an open stream holds no buffer.
	out *[]byte
	// chunk is where the open chunk begins in out, or -1. The first skip bytes of out are not sent.
	chunk, skip int
}

// outs holds write buffers that no reply uses.
var outs = sync.Pool{New: func() any { b := make([]byte, 0, outSize); return &b }}

// begin prepares the reply to a request.
func (w *reply) begin(r *http.Request) {
	clear(w.header)
	w.isHead, w.status, w.left, w.begun, w.chunked, w.bare = r.Method == http.MethodHead, 0, -1, false, false, false
	w.closes, w.duplex, w.err, w.chunk, w.skip, w.trailers = r.Close, false, nil, -1, 0, w.trailers[:0]
}

// Header implements http.ResponseWriter.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
// The head is not written yet: whether there will be a Content-Length depends on how much the
// handler writes.
func (w *reply) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("lane: invalid status " + strconv.Itoa(status)) // as in net/http
	}
	if w.status != 0 {
		w.conn.server.logf("lane: superfluous call of WriteHeader(%d)", status)
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.interim(status)
		return
	}
	w.status = status
	if given := w.header["Content-Length"]; len(given) > 0 {
		n, err := strconv.ParseInt(given[0], 10, 64)
		if err != nil || n < 0 {
			delete(w.header, "Content-Length") // net/http drops it, too
			return
		}
		w.left = n
	}
}

// interim sends a reply that comes before the final one, such as 103 Early Hints.
func (w *reply) interim(status int) {
	out := w.buffer()
	// It has the fields that the handler has set so far, except for those that describe the body of the
	// final reply.
	all := w.header
	w.header = maps.Clone(all)
	delete(w.header, "Content-Length") // of the final reply
	delete(w.header, "Transfer-Encoding")
	*out = append(w.appendHeader(appendStatus(*out, status)), "\r\n"...)
	w.header = all
	w.send()
	w.release()
}

// Write implements http.ResponseWriter. What is written is sent when enough was collected, when the
// handler flushes, or when it returns.
//
// A large piece of a body of known length is sent from the handler's memory, without a copy.
func (w *reply) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case len(p) == 0:
		return 0, nil
	case !hasBody(w.status):
		return 0, http.ErrBodyNotAllowed
	case w.left >= 0 && int64(len(p)) > w.left:
		w.left = overrun
		return 0, http.ErrContentLength
	case w.left == overrun:
		return 0, http.ErrContentLength
	}
	if w.left >= 0 {
		w.left -= int64(len(p))
	}
	for n < len(p) && w.err == nil {
		switch out := w.buffer(); {
		case w.begun && w.bare:
			return len(p), nil
		case len(*out) >= collectMost:
			w.start(false)
			w.send()
		case len(*out) == 0 && w.begun && !w.chunked && len(p)-n >= collectMost:
			w.write(p[n:])
			n = len(p)
		default:
			if w.begun && w.chunked && w.chunk < 0 {
				w.openChunk()
			}
			piece := min(len(p)-n, collectMost-min(len(*out), collectMost-1))
			*out = append(*out, p[n:n+piece]...)
			n += piece
		}
	}
	return n, w.err
}

// Flush implements http.Flusher.
func (w *reply) Flush() { _ = w.FlushError() }

// FlushError sends what was collected.
// The buffer is given back, so that a stream that waits for its next event holds none.
func (w *reply) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.start(false)
	w.send()
	w.release()
	return w.err
}

// SetReadDeadline changes the deadline for reads of the request's body.
func (w *reply) SetReadDeadline(t time.Time) error { return w.conn.body.setDeadline(t) }

// SetWriteDeadline changes the deadline for writes of the reply. Unlike the other methods it may be
// called by another goroutine, to end a write that is stuck.
func (w *reply) SetWriteDeadline(t time.Time) error {
	w.conn.hurried.Store(!t.IsZero())
	return w.conn.nc.SetWriteDeadline(t)
}

// EnableFullDuplex leaves the request's body to the handler when the reply begins.
func (w *reply) EnableFullDuplex() error {
	w.duplex = true
	return nil
}

// end completes the reply after its handler. It reports false if the caller did not get all of it,
// or cannot know where it ends: the connection must then be closed.
// A handler that has announced more bytes than it wrote leaves a reply that cannot be completed.
func (w *reply) end() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.start(true)
	if w.chunked {
		w.closeChunk()
		out := w.buffer()
		*out = append(w.appendTrailers(append(*out, "0\r\n"...)), "\r\n"...)
	}
	w.send()
	return w.err == nil && (w.left == 0 || w.left == -1 || w.bare)
}

// release returns the buffer to the pool.
func (w *reply) release() {
	if w.out == nil {
		return
	}
	giveOut(w.out, w.conn.server.Poison)
	w.out, w.chunk, w.skip = nil, -1, 0
}

// giveOut returns a write buffer to the pool.
func giveOut(out *[]byte, poison bool) {
	if poison {
		poisonBytes((*out)[:cap(*out)])
	}
	if cap(*out) <= outMost {
		*out = (*out)[:0]
		outs.Put(out)
	}
}

// buffer returns the buffer of what is to be sent.
func (w *reply) buffer() *[]byte {
	if w.out == nil {
		w.out = outs.Get().(*[]byte)
	}
	return w.out
}

// start writes the head in front of what was collected. last reports that the whole body was. It
// does nothing if the head was written.
//
// The framing is one of three: a Content-Length, the handler's or the length of a body that is
// complete; chunks; or no body at all, for HEAD and for statuses that have none.
func (w *reply) start(last bool) {
	if w.begun {
		return
	}
	w.begun = true
	if w.conn.server.ending.Load() || hasClose(w.header["Connection"]) {
		w.closes = true
	}
	// As in net/http, the handler cannot read the request any more, so that a caller who reads
	// nothing before it has sent everything does not wait for ever. A caller whose connection
	// ends need not send it at all.
	if b := w.conn.body; b.some && !w.closes && !w.duplex && !b.discard() {
		w.closes = true
	}
	// The head needs a buffer of its own in front of the collected body, which is then copied
	// after it. A body is at most collectMost long here.
	body := w.buffer()
	w.out = nil
	head := w.buffer()
	w.bare = w.isHead || !hasBody(w.status)
	w.announce()
	w.chunked = (!last || len(w.trailers) > 0) && w.left == -1 && !w.bare
	*head = w.appendHead((*head)[:0], *body, last)
	if len(*body) > 0 && !w.bare {
		if w.chunked {
			w.openChunk()
		}
		*head = append(*head, *body...)
	}
	giveOut(body, w.conn.server.Poison)
}

// appendHead appends the status line and the header.
// The fields it adds are those that net/http adds, under the same conditions.
func (w *reply) appendHead(b, body []byte, last bool) []byte {
	h := w.header
	delete(h, "Transfer-Encoding") // the framing is ours
	if !hasBody(w.status) {
		delete(h, "Content-Length")
	}
	if w.status == http.StatusNotModified {
		delete(h, "Content-Type")
	}
	b = w.appendHeader(appendStatus(b, w.status))
	if _, set := h["Date"]; !set {
		b = append(append(append(b, "Date: "...), w.conn.server.now()...), "\r\n"...)
	}
	if w.left == -1 && last && !w.chunked && hasBody(w.status) && (!w.isHead || len(body) > 0) {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(body)), 10), "\r\n"...)
	}
	if _, set := h["Content-Type"]; !set && len(body) > 0 && hasBody(w.status) && len(h["Content-Encoding"]) == 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(body)...), "\r\n"...)
	}
	if w.closes && !hasClose(h["Connection"]) {
		b = append(b, "Connection: close\r\n"...)
	}
	if w.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendHeader appends the fields that the handler has set, sorted by name. Most replies of a
// connection have the same fields, so their order is kept.
// If the keys differ after all, what was appended is thrown away and they are sorted again.
func (w *reply) appendHeader(b []byte) []byte {
	start := len(b)
	if len(w.keys) == len(w.header) {
		for i, key := range w.keys {
			values, same := w.header[key]
			if !same {
				break
			}
			if !slices.Contains(w.trailers, key) {
				b = appendField(b, key, values)
			}
			if i == len(w.keys)-1 {
				return b
			}
		}
	}
	b = b[:start]
	w.keys = slices.AppendSeq(w.keys[:0], maps.Keys(w.header))
	slices.Sort(w.keys)
	for _, key := range w.keys {
		if !slices.Contains(w.trailers, key) {
			b = appendField(b, key, w.header[key])
		}
	}
	return b
}

// announce reads the names of trailers from the header.
func (w *reply) announce() {
	for _, v := range w.header["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			w.trailers = append(w.trailers, http.CanonicalHeaderKey(textproto.TrimString(name)))
		}
	}
}

// appendTrailers appends the fields that follow the body: those that were announced, and those that
// the handler has marked with http.TrailerPrefix.
func (w *reply) appendTrailers(b []byte) []byte {
	for _, name := range w.trailers {
		b = appendField(b, name, w.header[name])
	}
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			b = appendField(b, name, values)
		}
	}
	return b
}

// appendField appends one line for each value. As in net/http, a name that cannot be sent is left
// out, and line breaks in a value become spaces.
func appendField(b []byte, key string, values []string) []byte {
	if key == "" || !all(key, inToken) {
		return b
	}
	for _, v := range values {
		if strings.IndexByte(v, '\n') >= 0 || strings.IndexByte(v, '\r') >= 0 {
			v = strings.NewReplacer("\n", " ", "\r", " ").Replace(v)
		}
		b = append(append(b, key...), ": "...)
		b = append(append(b, textproto.TrimString(v)...), "\r\n"...)
	}
	return b
}

// appendStatus appends the status line.
func appendStatus(b []byte, status int) []byte {
	if status == http.StatusOK {
		return append(b, "HTTP/1.1 200 OK\r\n"...)
	}
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	return append(append(append(b, ' '), text...), "\r\n"...)
}

// hasBody reports whether replies with this status have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// hasClose reports whether a Connection header ends the connection.
func hasClose(values []string) bool {
	for _, v := range values {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(textproto.TrimString(token), "close") {
				return true
			}
		}
	}
	return false
}

// openChunk begins a chunk at the end of the buffer. Its size is filled in by closeChunk.
// The placeholder leaves room for four hexadecimal digits.
func (w *reply) openChunk() {
	out := w.buffer()
	w.chunk = len(*out)
	*out = append(*out, "....\r\n"...)
}

// closeChunk ends the open chunk, if there is one. The line with its size ends where the data
// begins, and what is in front of the chunk moves up to it.
// This way the body is written once, although its length is known only at the end.
func (w *reply) closeChunk() {
	if w.chunk < 0 {
		return
	}
	out := *w.out
	data := w.chunk + chunkRoom
	var digits [chunkRoom]byte
	size := strconv.AppendInt(digits[:0], int64(len(out)-data), 16)
	at := data - len("\r\n") - len(size)
	copy(out[at:], size)
	if unused := at - w.chunk; unused > 0 {
		copy(out[unused:], out[:w.chunk]) // the head, once in a reply, or nothing
		w.skip = unused
	}
	*w.out = append(out, "\r\n"...)
	w.chunk = -1
}

// send sends everything in the buffer.
func (w *reply) send() {
	if w.out == nil {
		return
	}
	w.closeChunk()
	out := (*w.out)[w.skip:]
	if len(out) > 0 && w.err == nil {
		w.write(out)
	}
	*w.out, w.skip = (*w.out)[:0], 0
}

// write sends bytes. If the caller does not take them, the request is canceled.
func (w *reply) write(p []byte) {
	if _, err := w.conn.nc.Write(p); err != nil {
		w.err = err
		w.conn.hangUp()
	}
}

// stamp is the text of the Date header in one second.
type stamp struct {
	second int64
	text   string
}

// now returns the text of the Date header.
// Formatting it once per second is enough. Two goroutines may do so at the same time; both texts
// are right.
func (s *Server) now() string {
	now := time.Now()
	if have := s.date.Load(); have != nil && have.second == now.Unix() {
		return have.text
	}
	made := &stamp{second: now.Unix(), text: now.UTC().Format(http.TimeFormat)}
	s.date.Store(made)
	return made.text
}
