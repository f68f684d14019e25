package plainhttp

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// appendHead appends the request line and the header. Only requests whose length is known are sent.
func appendHead(b []byte, req *http.Request) ([]byte, error) {
	if req.ContentLength < 0 || req.Body == nil && req.ContentLength > 0 {
		return b, errors.New("plainhttp: the length of the body must be known")
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	if hasControls(req.Method) || strings.ContainsRune(req.Method, ' ') || hasControls(host) {
		return b, errors.New("plainhttp: the method or host cannot be sent")
	}
	b = append(append(b, req.Method...), ' ')
	b = append(b, req.URL.RequestURI()...) // escaped, so it holds no control characters
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	for name, values := range req.Header {
		if name == "Host" || name == "Content-Length" {
			continue
		}
		for _, v := range values {
			if hasControls(name) || hasControls(v) {
				return b, errors.New("plainhttp: a header holds a control character")
			}
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	if req.Body != nil || req.Method == http.MethodPost {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, req.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// hasControls reports whether s could end a line of the head.
func hasControls(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
