package plainhttp

import (
	"bytes"
	"errors"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const (
	// Limits on the head of a reply: bytes of the status line and header, and number of header
	// lines.
	maxHead   = 64 << 10
	maxFields = 256
)

// appendHead appends the request line and the header to b. The length of the body must be
// known: there is no chunked encoding here. Everything is checked for characters that could
// smuggle a second header or request.
//
// The fields are written in the order of the map, which differs from request to request; HTTP
// gives no meaning to the order of different fields.
func appendHead(b []byte, req *http.Request) ([]byte, error) {
	if req.ContentLength < 0 || req.Body == nil && req.ContentLength > 0 {
		return b, errors.New("plainhttp: the length of the body must be known")
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	// A query, and an opaque URL, are sent as they are: nothing has escaped them.
	target := req.URL.RequestURI()
	if !isToken(method) || host == "" || hasSpace(host) || hasSpace(target) {
		return b, errors.New("plainhttp: the method, host or URL cannot be sent")
	}
	b = append(append(b, method...), ' ')
	b = append(b, target...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	for name, values := range req.Header {
		if isOurs(name) {
			continue
		}
		for _, v := range values {
			if !isToken(name) || hasControl(v) {
				return b, errors.New("plainhttp: a header has a character that cannot be sent")
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	// A POST without a body says so, as RFC 9110 asks: some servers wait for one otherwise.
	if req.Body != nil || method == http.MethodPost {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, req.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	if req.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// isOurs reports whether the transport itself sets this header: those that frame the message
// or control the connection. The switch on the length avoids most comparisons.
func isOurs(name string) bool {
	switch len(name) {
	case 4:
		return strings.EqualFold(name, "Host")
	case 7:
		return strings.EqualFold(name, "Trailer")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 14:
		return strings.EqualFold(name, "Content-Length")
	case 16:
		return strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

// What a reply's head may not be. The errors repeat nothing of the reply.
var (
	// Reasons to reject the head of a reply. The texts contain nothing of the reply, since
	// they may reach the caller.
	errNotHTTP   = errors.New("the reply is not HTTP/1.1")
	errField     = errors.New("the reply has a header line that is not well formed")
	errHeadLong  = errors.New("the head of the reply is too long")
	errFields    = errors.New("the reply has too many header lines")
	errLength    = errors.New("the reply does not say clearly where it ends")
	errSwitching = errors.New("the server switched protocols without being asked")
	errInterim   = errors.New("the server sent too many interim replies")
)

// framing is what the head of a reply says about the reply itself.
// It is everything that decides where the reply ends and whether the connection can be used again.
type framing struct {
	status  int
	length  int64 // of the body; -1 if it is not said
	chunked bool
	old     bool // HTTP/1.0
	closes  bool // the server closes the connection after the reply
	fields  int  // number of header lines
}

// checkHead rejects heads that http.ReadResponse would accept although two readers could
// disagree about them: folded lines, lines that end with a bare line feed, a length together
// with an encoding, two lengths, an encoding other than chunked, any version but HTTP/1.0 and 1.1.
// Such differences allow response smuggling. The head includes its empty line.
func checkHead(head []byte) (f framing, err error) {
	line, rest := cutLine(head)
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' ||
		!isNumber(line[9:12]) || len(line) > 12 && line[12] != ' ' || hasControl(line) {
		return f, errNotHTTP
	}
	// HTTP/1.0 has no chunked encoding, and ends a connection after each reply.
	f.old = line[7] == '0'
	f.status, f.length, f.closes = int(line[9]-'0')*100+int(line[10]-'0')*10+int(line[11]-'0'), -1, f.old
	for {
		if line, rest = cutLine(rest); line == nil {
			return f, errField
		}
		if len(line) == 0 {
			break
		}
		if f.fields == maxFields {
			return f, errFields
		}
		f.fields++
		name, value, ok := bytes.Cut(line, colon)
		if !ok || !isToken(name) || hasControl(value) {
			return f, errField
		}
		if err := f.note(name, bytes.Trim(value, " \t")); err != nil {
			return f, err
		}
	}
	switch {
	case f.status < 100:
		return f, errNotHTTP
	case f.status == http.StatusSwitchingProtocols:
		return f, errSwitching
	case f.length >= 0 && f.chunked, f.chunked && f.old, f.status < 200 && (f.length >= 0 || f.chunked):
		return f, errLength
	}
	return f, nil
}

// note keeps what a header line says about the reply. The lengths of the names avoid most comparisons.
func (f *framing) note(name, value []byte) error {
	switch {
	case len(name) == len(fieldLength) && bytes.EqualFold(name, fieldLength):
		// More digits than an int64 has are no length, either.
		if f.length >= 0 || !isNumber(value) || len(value) > 18 {
			return errLength
		}
		f.length = 0
		for _, c := range value {
			f.length = 10*f.length + int64(c-'0')
		}
	case len(name) == len(fieldEncoding) && bytes.EqualFold(name, fieldEncoding):
		if f.chunked || !bytes.EqualFold(value, chunked) {
			return errLength
		}
		f.chunked = true
	case len(name) == len(fieldConnection) && bytes.EqualFold(name, fieldConnection):
		for option := range bytes.SplitSeq(value, comma) {
			f.closes = f.closes || bytes.EqualFold(bytes.Trim(option, " \t"), closing)
		}
	}
	return nil
}

// hasBody reports whether a reply to a request with this method has a body.
// These replies end with their head, whatever length it announces (RFC 9112, section 6.3).
func (f *framing) hasBody(method string) bool {
	return method != http.MethodHead && f.status >= 200 && f.status != http.StatusNoContent && f.status != http.StatusNotModified
}

// header returns the header of a head that was checked. All of it is one string and one slice, so that a header costs
// few allocations however many lines it has.
func (f *framing) header(head []byte) http.Header {
	_, rest := cutLine(head)
	text := string(rest)
	h, values := make(http.Header, f.fields), make([]string, f.fields)
	for i := range f.fields {
		line, after, _ := strings.Cut(text, "\r\n")
		text = after
		name, value, _ := strings.Cut(line, ":")
		name, values[i] = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		if more, ok := h[name]; ok {
			h[name] = append(more, values[i])
			continue
		}
		// The capacity is cut, so that a second line of the same name is appended to a copy and
		// not over the next value.
		h[name] = values[i : i+1 : i+1]
	}
	return h
}

// What is compared with, allocated once.
var (
	colon           = []byte(":")
	comma           = []byte(",")
	closing         = []byte("close")
	chunked         = []byte("chunked")
	fieldLength     = []byte("Content-Length")
	fieldEncoding   = []byte("Transfer-Encoding")
	fieldConnection = []byte("Connection")
)

// headEnd returns the length of the head at the start of b, including its empty line, or 0 if
// b does not hold all of it. The first looked bytes are known not to contain the end. An empty
// line that ends with a bare line feed counts as the end, because http.ReadResponse accepts
// it; checkHead then rejects it.
func headEnd(b []byte, looked int) int {
	for i := looked; ; i++ {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n
		if i == 0 || b[i-1] == '\n' || i > 1 && b[i-1] == '\r' && b[i-2] == '\n' {
			return i + 1
		}
	}
}

// cutLine returns the first line without its CRLF, and the rest. It returns nil if the line
// ends with a bare line feed or does not end.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 1 || b[i-1] != '\r' {
		return nil, nil
	}
	return b[:i-1], b[i+1:]
}

// isToken reports whether s is a valid method or header name (RFC 9110, token).
func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || separators[c] {
			return false
		}
	}
	return len(s) > 0
}

// separators holds the printable characters that are not allowed in a token.
var separators = func() (set [0x80]bool) {
	for _, c := range `"(),/:;<=>?@[\]{}` {
		set[c] = true
	}
	return set
}()

// isNumber reports whether s consists of one or more digits.
func isNumber(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0
}

// hasControl reports whether s has a control character other than tab. These could end a line
// of the head.
func hasControl[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// hasSpace reports whether s has a character that would end a part of the request line.
func hasSpace(s string) bool { return hasControl(s) || strings.ContainsAny(s, " \t") }
