// Package porttest gives servers of tests a port that stays theirs while they are stopped.
//
// A port that is only found to be free can be taken by anybody before a server listens on it, and
// again each time the server is restarted: every connection on the machine uses up a port. Only tests
// and the tools that run them import this package.
package porttest

import (
	"strconv"
	"syscall"
)

// Port is a TCP port of 127.0.0.1 that nobody else is given. A server may listen on it, if it sets
// SO_REUSEADDR, as servers do. Without a server, connections are refused.
type Port struct {
	Number int
	socket int
}

// Hold returns a free port. The caller must release it.
func Hold() (*Port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(socket)
	// The server sets it as well; together they may be bound to one port. This one does not listen.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(socket)
	}
	if err != nil {
		syscall.Close(socket)
		return nil, err
	}
	return &Port{name.(*syscall.SockaddrInet4).Port, socket}, nil
}

// Addr returns the address of the port, with the host.
func (p *Port) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.Number) }

// Release gives the port back.
func (p *Port) Release() { syscall.Close(p.socket) }
