package blob

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A connection to an object store ends when nothing passes for a while, and not before.
func TestStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &progressing{near}
		read := make(chan error, 1)
		began := time.Now()
		go func() { // as the transport does: it waits for the reply while the file is being sent
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		go func() {
			for {
				if _, err := far.Read(make([]byte, 1)); err != nil {
					return
				}
			}
		}()
		for range 10 {
			time.Sleep(stalled - time.Second)
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatalf("Write after %s = %v", time.Since(began), err)
			}
		}
		sent := time.Since(began)
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != sent+stalled {
			t.Errorf("Read ended after %s with %v, want %s after the last byte", time.Since(began)-sent, err, stalled)
		}
	})
}
