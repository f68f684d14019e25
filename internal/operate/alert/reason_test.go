package alert_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"

	"sluice/internal/operate/alert"
)

// What the owner of a receiver reads names no address of ours.
func TestReasonOf(t *testing.T) {
	t.Parallel()
	here, there := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 40000}, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 443}
	for want, err := range map[string]error{
		"it closed the connection without an answer":                                   &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.ECONNRESET},
		"the server refused the connection":                                            &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: syscall.ECONNREFUSED},
		"its host cannot be reached":                                                   &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: syscall.EHOSTUNREACH},
		"its TLS certificate is not accepted: certificate signed by unknown authority": &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"it does not speak TLS on this port":                                           tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"the connection broke: protocol error":                                         &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.EPROTO},
		"its host name is not known":                                                   &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x.example", Server: "10.0.0.53:53", IsNotFound: true}},
		"its host name could not be looked up":                                         &net.DNSError{Err: "server misbehaving", Name: "x.example", Server: "10.0.0.53:53"},
		"something else":                                                               errors.New("something else"),
	} {
		if got := alert.ReasonOf(&url.Error{Op: "Post", URL: "https://x.example/secret", Err: err}); got != want {
			t.Errorf("the reason for %v is %q, want %q", err, got, want)
		}
	}
}
