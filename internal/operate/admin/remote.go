package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// remote calls the admin API of a server somewhere else.
type remote struct {
	origin string // scheme and host
	token  string
	client *http.Client
}

// Remote returns a client of the admin API of a server. server is its address, such as https://api.example.com, and
// token a staff token.
func Remote(server, token string) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q is not the address of a server; expected a form like https://api.example.com", excerpt.Of(server, 100))
	}
	if token == "" {
		return nil, errors.New("a staff token is needed for another server: set SLUICE_TOKEN, or use --token")
	}
	r := &remote{origin: u.Scheme + "://" + u.Host, token: token}
	// The token must not follow a redirect to another host, and a body does not.
	r.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Client{remote: r}, nil
}

// call runs an operation and decodes its result into out.
func (c *remote) call(ctx context.Context, name string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	r := named(name)
	if r == nil || r.Path == "" {
		return fmt.Errorf("%s works only on the machine of the server, without --server", name)
	}
	req, err := c.request(ctx, r, in)
	if err != nil {
		return err
	}
	return exchange(c.client.Do, req, out, c.refusal)
}

// refusal returns the error in a reply of the server.
func (c *remote) refusal(status int, raw []byte) error {
	var told struct{ Error fault.Object }
	if err := json.Unmarshal(raw, &told); err != nil || told.Error.Message == "" {
		return fmt.Errorf("%s answered with status %d; is it a Sluice server?", c.origin, status)
	}
	message := told.Error.Message
	if status == http.StatusUnauthorized {
		message = fmt.Sprintf("%s refuses the staff token in --token or SLUICE_TOKEN: %s \"sluice token create\" on its machine makes a new one.", c.origin, message)
	}
	return fault.New(fault.Named(told.Error.Type, status), "%s", message).At(told.Error.Param)
}

// request puts the fields of an argument where the route has them: in the path, the query or the body.
func (c *remote) request(ctx context.Context, r *Route, in any) (*http.Request, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "actor") // the server knows who has the token
	path := r.Path
	for _, name := range r.pathFields() {
		var value string
		if err := json.Unmarshal(fields[name], &value); err != nil || value == "" {
			return nil, fmt.Errorf("%s needs a %s on another server", r.Name, name)
		}
		path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		delete(fields, name)
	}
	target := c.origin + Base + path
	var body io.Reader = http.NoBody
	if r.Method == http.MethodGet {
		query := url.Values{}
		for name, value := range fields {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value) // a number or a boolean
			}
			query.Set(name, text)
		}
		target += "?" + query.Encode()
	} else if raw, err = json.Marshal(fields); err != nil {
		return nil, err
	} else {
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}
