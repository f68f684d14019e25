package lane

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// Heads beyond these bounds are served by net/http, which has bounds of its own.
const (
	// maxLines is the maximum number of header lines of a plain request.
	maxLines = 64
	// maxDigits is the maximum number of digits of a Content-Length; the largest body has fewer.
	maxDigits = 12
)

// methods begins the first line of every plain request.
var methods = []string{"POST /", "GET /", "HEAD /"}

// scan looks for the end of a head while it arrives.
type scan struct {
	seen  int // bytes that were looked at
	start int // of the current line
	end   int // of the head, with its empty line
}

// look continues with the bytes that have arrived, from the first byte of the head. It reports whether
// the head is whole. It returns errAside as soon as the head cannot become a plain one: a client
// that speaks something else must not be left waiting.
// Bytes that were looked at are not looked at again, so a head that arrives byte by byte costs no
// more than one that arrives at once.
func (s *scan) look(b []byte) (whole bool, err error) {
	if s.seen < len(methods[0]) && !isPlainStart(b) {
		return false, errAside
	}
	for {
		i := bytes.IndexByte(b[s.seen:], '\n')
		if i < 0 {
			s.seen = len(b)
			return false, nil
		}
		i += s.seen
		// net/http accepts lines that end with a bare line feed; other servers disagree.
		if i == s.start || b[i-1] != '\r' {
			return false, errAside
		}
		s.seen = i + 1
		if i-1 == s.start {
			s.end = i + 1
			return true, nil
		}
		s.start = i + 1
	}
}

// isPlainStart reports whether b is, or can become, the start of a plain request.
func isPlainStart(b []byte) bool {
	for _, m := range methods {
		if n := min(len(b), len(m)); string(b[:n]) == m[:n] {
			return true
		}
	}
	return false
}

// target is what a head says besides its header. The first line of a connection's requests is
// mostly the same, so its parts are kept.
type target struct {
	first             []byte // the line they were taken from
	method, uri       string
	path, query, host string
	length            int64
	close             bool
}

// line is one header line of the last head, and what it means. Most lines of a connection's
// requests are the same, and comparing is cheaper than parsing.
type line struct {
	raw    []byte
	key    string
	values []string
}

// parse takes a whole head, with its empty line. It fills c.target, c.url, c.header and c.body. Only what means
// the same to every server is accepted; the rest is errAside.
//
// Lines are compared with those of the previous head at the same position. A line that failed to
// parse is emptied, so that it cannot match the next head.
func (c *conn) parse(head []byte) error {
	first, rest := cutLine(head)
	if !bytes.Equal(first, c.target.first) {
		if !c.target.parse(first) {
			c.target.first = c.target.first[:0]
			return errAside
		}
	}
	// -1 stands for a length that was not given; two Content-Length lines are a known way to
	// smuggle requests past a proxy, and add refuses the second.
	t := &c.target
	t.length, t.close, t.host = -1, false, ""
	clear(c.header)
	for n := 0; ; n++ {
		raw, after := cutLine(rest)
		if len(raw) == 0 {
			break
		}
		if n == maxLines {
			return errAside
		}
		if n == len(c.lines) {
			c.lines = append(c.lines, line{})
		}
		l := &c.lines[n]
		if !bytes.Equal(l.raw, raw) && !l.parse(raw) {
			l.raw = l.raw[:0]
			return errAside
		}
		if !c.add(l) {
			return errAside
		}
		rest = after
	}
	if t.host == "" || t.length > 0 && t.method != http.MethodPost {
		return errAside
	}
	t.length = max(t.length, 0)
	*c.url = url.URL{Path: t.path, RawQuery: t.query}
	c.body.reset(t.length)
	return nil
}

// add puts a header line into the request. It reports false for what net/http must decide.
func (c *conn) add(l *line) bool {
	t, value := &c.target, l.values[0]
	// The keys are in canonical form.
	switch l.key {
	case "Host":
		if t.host != "" || !isPlainHost(value) {
			return false
		}
		t.host = value
		return true // net/http has it in Request.Host alone
	case "Content-Length":
		if t.length >= 0 || !isPlainNumber(value) {
			return false
		}
		t.length, _ = strconv.ParseInt(value, 10, 64) // has only digits, and few of them
	case "Connection":
		switch {
		case c.header["Connection"] != nil:
			return false
		case value == "close":
			t.close = true
		case value != "keep-alive" && value != "Keep-Alive":
			return false
		}
	case "Transfer-Encoding", "Upgrade", "Expect", "Trailer", "Te", "Pragma", "Http2-Settings", "Proxy-Connection", "Keep-Alive":
		return false
	}
	if have, twice := c.header[l.key]; twice {
		c.header[l.key] = append(have[:len(have):len(have)], value) // the line keeps its own list
		return true
	}
	c.header[l.key] = l.values
	return true
}

// parse takes the first line apart.
func (t *target) parse(raw []byte) bool {
	method, rest, _ := strings.Cut(string(raw), " ")
	uri, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" || strings.HasPrefix(uri, "//") {
		return false // "//" begins an authority, some would say
	}
	path, query, asked := strings.Cut(uri, "?")
	if asked && query == "" || !all(path, inPath) || !all(query, inQuery) {
		return false
	}
	t.first = append(t.first[:0], raw...)
	t.method, t.uri, t.path, t.query = method, uri, path, query
	return true
}

// parse takes a header line apart. Its values are new, because handlers may have kept the old ones.
func (l *line) parse(raw []byte) bool {
	colon := bytes.IndexByte(raw, ':')
	if colon < 1 || !all(raw[:colon], inToken) {
		return false
	}
	value := bytes.Trim(raw[colon+1:], " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	l.key = textproto.CanonicalMIMEHeaderKey(string(raw[:colon]))
	l.values = []string{string(value)}
	l.raw = append(l.raw[:0], raw...)
	return true
}

// cutLine returns the first line without its CRLF, and what follows it. scan has checked that every
// line ends with CRLF.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	return b[:i-1], b[i+1:]
}

// class is a set of bytes.
// An array lookup takes one instruction per byte, where a switch over ranges takes several.
type class [256]bool

// newClass returns the set of letters, digits and some other characters.
func newClass(others string) *class {
	var set class
	for c := '0'; c <= '9'; c++ {
		set[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		set[c], set[c-'a'+'A'] = true, true
	}
	for i := range len(others) {
		set[others[i]] = true
	}
	return &set
}

var (
	inToken = newClass("!#$%&'*+-.^_`|~")
	// inPath has the characters that mean themselves in a path: package url neither decodes them
	// nor writes them in another way.
	inPath = newClass("/-_.~:@$&+=,;")
	// inQuery has what package url leaves alone, because nothing decodes a query before its user.
	inQuery = newClass("/-_.~:@$&+=,;%!*'()")
	inHost  = newClass("-_.:[]")
)

// all reports whether every byte is in the set.
func all[T string | []byte](s T, set *class) bool {
	for i := range len(s) {
		if !set[s[i]] {
			return false
		}
	}
	return true
}

// isPlainHost reports whether a Host header is a name or an address, maybe with a port.
func isPlainHost(s string) bool { return s != "" && all(s, inHost) }

// isPlainNumber reports whether s is a number as everybody writes it.
// Signs, leading zeros and lists are left to net/http.
func isPlainNumber(s string) bool {
	if s == "" || len(s) > maxDigits || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
