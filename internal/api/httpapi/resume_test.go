package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/line/relay"
)

// Another node that reads a stream gets its last event when the server stops, and holds nothing when it has left.
func TestOutliving(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]time.Duration{relay.ErrStopping: httpserver.LastWords, errors.New("left"): 0} {
		synctest.Test(t, func(t *testing.T) {
			request, end := context.WithCancelCause(t.Context())
			ctx, cancel := outliving(request)
			defer cancel()
			began := time.Now()
			end(cause)
			<-ctx.Done()
			if lasted := time.Since(began); lasted != want {
				t.Errorf("after %q the work goes on for %v, want %v", cause, lasted, want)
			}
		})
	}
}
