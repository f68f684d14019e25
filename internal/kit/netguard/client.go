package netguard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is the number of redirects that a client follows for one request.
const maxRedirects = 3

// Client returns a client for one server. The header is added to every request to the server's own
// origin and to no other. The client keeps no cookies, so requests cannot be linked by them.
func (g *Guard) Client(server *url.URL, header http.Header) *http.Client {
	v := &visitor{origin: origin(server), header: header, next: g.transport}
	return &http.Client{Transport: v, CheckRedirect: v.redirect}
}

// visitor is the transport of a client for one server.
type visitor struct {
	// origin is the scheme, host and port that the header may be sent to.
	origin string
	header http.Header
	next   http.RoundTripper
}

var (
	errElsewhere = errors.New("the server names an address on another host")
	errTooFar    = fmt.Errorf("the server redirects more than %d times", maxRedirects)
)

// RoundTrip implements http.RoundTripper. It adds the header to requests for the server's own
// origin. Other origins are reached only by following a redirect, and without the header.
func (v *visitor) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != v.origin {
		if req.Response == nil { // not a redirect: the protocol's own data named this URL
			return nil, errElsewhere
		}
		return v.next.RoundTrip(req)
	}
	// A RoundTripper must not modify the request, so work on a copy.
	r := req.Clone(req.Context())
	for name, values := range v.header {
		if r.Header[name] == nil { // headers that the protocol sets win over the caller's
			r.Header[name] = values
		}
	}
	return v.next.RoundTrip(r)
}

// redirect is the client's CheckRedirect. It decides whether to follow a redirect; the dialer
// checks the address afterwards. On the way to another origin it removes all headers except those
// that describe the body and the accepted reply.
func (v *visitor) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errTooFar
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.User != nil {
		return fmt.Errorf("the server redirects to a URL that is not plain http or https")
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

// origin returns scheme, host and port of a URL, with the scheme's default port filled in.
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
