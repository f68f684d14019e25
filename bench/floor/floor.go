// Package floor is the least that a gateway written with net/http can do. Sluice's cost is
// compared with it.
//
// It looks up a key, forwards the body unchanged, passes on the reply as it arrives, and adds
// up the tokens that it finds in it. It validates nothing, translates nothing, limits nothing,
// logs nothing, and does not notice if a reply is cut off. The difference to Sluice is the
// cost of all of that.
package floor

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxBody = 10 << 20
	// piece is how many bytes of a reply are read at once.
	piece = 4 << 10
)

// Proxy forwards the calls of one key to one upstream.
type Proxy struct {
	upstream  *url.URL
	accounts  map[[sha256.Size]byte]*account
	transport *http.Transport
	// header is sent with every upstream request. It is shared and never modified.
	header  http.Header
	buffers sync.Pool
}

// account counts the tokens that a key has used.
type account struct{ prompt, completion atomic.Int64 }

// New returns a proxy for an upstream with this base URL, such as http://host/v1.
func New(baseURL, key string) (*Proxy, error) {
	u, err := url.Parse(baseURL + "/chat/completions")
	if err != nil {
		return nil, err
	}
	return &Proxy{
		upstream:  u,
		accounts:  map[[sha256.Size]byte]*account{sha256.Sum256([]byte(key)): {}},
		transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, DisableCompression: true},
		header:    http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer upstream"}},
		buffers:   sync.Pool{New: func() any { b := make([]byte, piece); return &b }},
	}, nil
}

// Used returns how many tokens a key has used.
func (p *Proxy) Used(key string) (prompt, completion int64) {
	a := p.accounts[sha256.Sum256([]byte(key))]
	if a == nil {
		return 0, 0
	}
	return a.prompt.Load(), a.completion.Load()
}

// Close closes idle connections.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// ServeHTTP forwards one call.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a := p.accounts[sha256.Sum256([]byte(key))]
	if !ok || a == nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.ContentLength <= 0 || r.ContentLength > maxBody {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// The whole body is read, as every gateway must that looks at the model.
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil || !bytes.Contains(body, []byte(`"model":"`)) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// Built by hand: http.NewRequest and the client's redirects are not part of the minimum.
	resp, err := p.transport.RoundTrip((&http.Request{
		Method: http.MethodPost, URL: p.upstream, Host: p.upstream.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.header, ContentLength: r.ContentLength, Body: io.NopCloser(bytes.NewReader(body)),
	}).WithContext(r.Context()))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	p.relay(w, resp, a)
}

// relay passes on the reply. It flushes after each read if the length is unknown, because the
// reply is a stream then.
func (p *Proxy) relay(w http.ResponseWriter, resp *http.Response, a *account) {
	h := w.Header()
	h["Content-Type"] = resp.Header["Content-Type"]
	if resp.ContentLength >= 0 {
		h["Content-Length"] = resp.Header["Content-Length"]
	}
	w.WriteHeader(resp.StatusCode)
	flusher := w.(http.Flusher) // net/http's writer always is one
	pooled := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(pooled)
	for {
		n, err := resp.Body.Read(*pooled)
		if n > 0 {
			a.add((*pooled)[:n])
			if _, err := w.Write((*pooled)[:n]); err != nil {
				return
			}
			if resp.ContentLength < 0 {
				flusher.Flush()
			}
		}
		if err != nil {
			return
		}
	}
}

// add counts the usage figures in a part of a reply.
func (a *account) add(piece []byte) {
	_, usage, ok := bytes.Cut(piece, []byte(`"usage":{`))
	if !ok {
		return
	}
	a.prompt.Add(numberAfter(usage, `"prompt_tokens":`))
	a.completion.Add(numberAfter(usage, `"completion_tokens":`))
}

// numberAfter returns the number that follows key, or 0.
func numberAfter(text []byte, key string) int64 {
	_, rest, _ := bytes.Cut(text, []byte(key))
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		digits++
	}
	n, _ := strconv.ParseInt(string(rest[:digits]), 10, 64) // 0 if there is none
	return n
}
