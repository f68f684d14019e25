package netguard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how often a server may send us on.
const maxRedirects = 3

// Client returns a client for one server. The header goes with every request to the server's own
// origin and nowhere else; nor does anything that ties requests together.
func (g *Guard) Client(server *url.URL, header http.Header) *http.Client {
	v := &visitor{origin: origin(server), header: header, next: g.transport}
	return &http.Client{Transport: v, CheckRedirect: v.redirect}
}

// visitor sends the requests for one server.
type visitor struct {
	origin string
	header http.Header
	next   http.RoundTripper
}

var (
	errElsewhere = errors.New("the server names an address on another host")
	errTooFar    = fmt.Errorf("the server redirects more than %d times", maxRedirects)
)

// RoundTrip adds the header to a request for the server.
func (v *visitor) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != v.origin {
		if req.Response == nil { // no redirect brought us here
			return nil, errElsewhere
		}
		return v.next.RoundTrip(req)
	}
	r := req.Clone(req.Context())
	for name, values := range v.header {
		if r.Header[name] == nil { // what the protocol itself needs goes first
			r.Header[name] = values
		}
	}
	return v.next.RoundTrip(r)
}

// redirect judges where the server sends us, before the dialer does. Of the headers only those that
// say what the body is go to another host.
func (v *visitor) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errTooFar
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.User != nil {
		return fmt.Errorf("the server redirects to an address that is no plain http or https one")
	}
	if origin(req.URL) == v.origin {
		return nil
	}
	for name := range req.Header {
		if name != "Accept" && name != "Content-Type" {
			delete(req.Header, name)
		}
	}
	return nil
}

// origin is what two URLs of one server have in common.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return strings.ToLower(u.Scheme) + "://" + hostKey(u.Hostname(), port)
}
