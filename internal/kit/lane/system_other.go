//go:build !linux

package lane

import "errors"

// hangUps needs epoll. On other systems all connections are served by net/http.
type hangUps struct{}

func (h *hangUps) open() error { return nil }

func (h *hangUps) add(*conn) error { return errors.New("lane: needs epoll") }

func (h *hangUps) remove(*conn) {}

func (h *hangUps) run() {}

func (h *hangUps) close() {}

// tryRead is never called: there are no connections.
func (c *conn) tryRead(uintptr) bool { return true }
