package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/internal/api/httpserver"
)

// paced is a ResponseWriter that notes how the deadlines of its writes are set.
type paced struct {
	http.ResponseWriter
	deadline time.Time // in force now
	bounded  int       // writes with a deadline
}

func (p *paced) SetWriteDeadline(t time.Time) error { p.deadline = t; return nil }

func (p *paced) Write(b []byte) (int, error) {
	if !p.deadline.IsZero() {
		p.bounded++
	}
	return p.ResponseWriter.Write(b)
}

// On HTTP/2 every write has a deadline, so that a caller who does not read its stream cannot hold it for ever. The
// streams of package relay have theirs from the pulse. A stream may be silent between its events.
func TestPass(t *testing.T) {
	t.Parallel()
	const pieces = 3
	for name, tt := range map[string]struct {
		http2, mcp bool
		kind       []string
		bounded    int
		after      bool // a deadline stays
	}{
		"HTTP/1":              {false, false, jsonType, 0, false},
		"HTTP/1, MCP stream":  {false, true, eventStream, 0, false},
		"HTTP/2":              {true, false, jsonType, pieces, true},
		"HTTP/2, stream":      {true, false, eventStream, 0, false},
		"HTTP/2, MCP":         {true, true, jsonType, pieces, true},
		"HTTP/2, MCP, stream": {true, true, eventStream, pieces, false},
	} {
		p := &paced{ResponseWriter: httptest.NewRecorder()}
		x := &exchange{ResponseWriter: p, http2: tt.http2, mcp: tt.mcp}
		x.Header()["Content-Type"] = tt.kind
		if n, err := x.Write(make([]byte, (pieces-1)*httpserver.WritePiece+1)); err != nil || n != (pieces-1)*httpserver.WritePiece+1 {
			t.Errorf("%s: Write = %d, %v", name, n, err)
		}
		if p.bounded != tt.bounded || p.deadline.IsZero() == tt.after {
			t.Errorf("%s: %d writes had a deadline, and after them it is %v, want %d and one left: %t", name, p.bounded, p.deadline, tt.bounded, tt.after)
		}
	}
}
