package lane

import (
	"errors"
	"math"
	"os"
	"sync"
	"syscall"
)

// hangUps tells connections that their caller has hung up. Each connection is registered with an
// epoll instance once, so that a request costs no system call for it. The system reports the end
// even if the caller has sent more requests that were not read yet.
//
// net/http learns of a hang-up by reading from the connection in the background while the handler
// runs, which takes a goroutine per request. A caller that has closed only its sending side counts
// as gone, too, as in net/http.
type hangUps struct {
	epoll *os.File
	raw   syscall.RawConn

	mu    sync.Mutex // guards the fields below
	next  uint64
	conns map[uint64]*conn
}

// events is how many hang-ups are read at a time.
const events = 64

// open creates the epoll instance. It is itself watched by the runtime, so waiting for it takes no
// thread.
func (h *hangUps) open() error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err = syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return os.NewSyscallError("setnonblock", err)
	}
	h.epoll = os.NewFile(uintptr(fd), "epoll")
	h.raw, err = h.epoll.SyscallConn()
	h.conns = map[uint64]*conn{}
	return err
}

// add watches a connection. The number it gives to the connection is never used again, unlike the
// descriptor, so a late event cannot reach another connection.
func (h *hangUps) add(c *conn) error {
	h.mu.Lock()
	h.next++
	c.watched = h.next
	h.conns[c.watched] = c
	h.mu.Unlock()
	var failed, refused error
	err := c.raw.Control(func(fd uintptr) {
		failed = h.raw.Control(func(epoll uintptr) {
			// Fd and Pad together are the 64 bits of user data, which the system returns with each
			// event as they are. EPOLLERR and EPOLLHUP are reported without being asked for.
			e := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edgeTriggered, Fd: int32(c.watched & math.MaxUint32), Pad: int32(c.watched >> 32)}
			refused = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(fd), &e))
		})
	})
	return errors.Join(err, failed, refused)
}

// edgeTriggered is EPOLLET, which package syscall defines as a negative number.
const edgeTriggered = 1 << 31

// remove forgets a connection. The system does so itself when the descriptor is closed.
func (h *hangUps) remove(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c.watched)
}

// run cancels the requests of callers that have hung up, until close is called.
// The read function of a RawConn is called again whenever the runtime's poller says that the epoll
// instance is readable, so EpollWait itself never blocks.
func (h *hangUps) run() {
	var list [events]syscall.EpollEvent
	for {
		var n int
		err := h.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = syscall.EpollWait(int(fd), list[:], 0)
			return n > 0 || err != nil && !errors.Is(err, syscall.EINTR)
		})
		if err != nil || n < 0 {
			return // closed
		}
		for _, e := range list[:n] {
			if c := h.find(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32); c != nil {
				c.hangUp()
			}
		}
	}
}

// find returns the connection with a number, or nil if it has ended.
func (h *hangUps) find(number uint64) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns[number]
}

// close ends run.
func (h *hangUps) close() { _ = h.epoll.Close() }

// tryRead reads without waiting. It reports false if there is nothing to read yet: the runtime then
// calls it again when there is. A connection that waits with nothing in its buffer has none.
func (c *conn) tryRead(fd uintptr) bool {
	if c.buf == nil {
		c.buf = buffers.Get().(*[bufferSize]byte)
		c.r, c.w = 0, 0
	}
	for {
		c.n, c.readErr = syscall.Read(int(fd), c.buf[c.w:])
		switch {
		case errors.Is(c.readErr, syscall.EINTR):
			continue
		case errors.Is(c.readErr, syscall.EAGAIN):
			if c.w == 0 {
				c.giveBuffer()
			}
			return false
		}
		return true
	}
}
