// Package dnstest has a small DNS server on 127.0.0.1, and a resolver that asks it. It knows addresses and SRV records, and
// what it is told to know.
package dnstest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// The types and answers that are used here (RFC 1035, RFC 2782 and RFC 3596).
const (
	typeA, typeAAAA, typeSRV = 1, 28, 33
	classIN                  = 1
	nameError, serverFailure = 3, 2
)

// Server is a DNS server.
type Server struct {
	conn net.PacketConn

	mu      sync.Mutex // guards all below
	hosts   map[string][]netip.Addr
	records map[string][]net.SRV
	broken  bool
	asked   int
}

// New returns a server that runs until the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{conn: conn, hosts: map[string][]netip.Addr{}, records: map[string][]net.SRV{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
	return s
}

// Set gives a name its addresses; without any, there is no such name.
func (s *Server) Set(name string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[name] = nil
	for _, a := range addresses {
		s.hosts[name] = append(s.hosts[name], netip.MustParseAddr(a))
	}
}

// SetRecords gives a name its SRV records.
func (s *Server) SetRecords(name string, records ...net.SRV) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = records
}

// Break lets every question fail, or answers again.
func (s *Server) Break(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// Asked returns how many questions have come.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Resolver returns a resolver that asks the server.
func (s *Server) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

// serve answers questions until the connection is closed.
func (s *Server) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := s.answer(buf[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

// answer returns the reply to a message with one question; nil if it is none.
func (s *Server) answer(asked []byte) []byte {
	name, end := question(asked)
	if end < 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	kind := binary.BigEndian.Uint16(asked[end-4:])
	var found [][]byte
	switch kind {
	case typeA, typeAAAA:
		for _, a := range s.hosts[name] {
			if a.Is4() == (kind == typeA) {
				found = append(found, a.AsSlice())
			}
		}
	case typeSRV:
		for _, r := range s.records[name] {
			data := binary.BigEndian.AppendUint16(nil, r.Priority)
			data = binary.BigEndian.AppendUint16(data, r.Weight)
			found = append(found, append(binary.BigEndian.AppendUint16(data, r.Port), labels(r.Target)...))
		}
	}
	var code byte
	switch {
	case s.broken:
		code, found = serverFailure, nil
	case len(s.hosts[name]) == 0 && len(s.records[name]) == 0:
		code = nameError
	}
	reply := append([]byte(nil), asked[:end]...)
	reply[2], reply[3] = 0x85, 0x80|code // an answer that counts, and recursion is there
	copy(reply[4:], []byte{0, 1, byte(len(found) >> 8), byte(len(found)), 0, 0, 0, 0})
	for _, data := range found {
		reply = append(reply, 0xc0, 12) // the name of the question
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = binary.BigEndian.AppendUint16(reply, classIN)
		reply = binary.BigEndian.AppendUint32(reply, 1) // seconds to live
		reply = append(binary.BigEndian.AppendUint16(reply, uint16(len(data))), data...)
	}
	return reply
}

// question returns the name that a message asks for, and where its question ends; negative if there is none.
func question(asked []byte) (name string, end int) {
	var parts []string
	for at := 12; at < len(asked); {
		n := int(asked[at])
		if n == 0 {
			if at+5 > len(asked) {
				return "", -1
			}
			return strings.ToLower(strings.Join(parts, ".")), at + 5
		}
		if at+1+n > len(asked) {
			return "", -1
		}
		parts = append(parts, string(asked[at+1:at+1+n]))
		at += 1 + n
	}
	return "", -1
}

// labels writes a name as messages have it.
func labels(name string) (data []byte) {
	for part := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		data = append(append(data, byte(len(part))), part...)
	}
	return append(data, 0)
}
