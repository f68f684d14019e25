package health

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Something that fails every second for five minutes is told when it begins, once a minute, and when it is over.
func TestTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var trouble Trouble
		for round := range 2 {
			out.Reset()
			trouble.Works(log, "alerts are sent again")
			for range 300 {
				trouble.Failed(log, "alerts wait", errors.New("disk full"), "node", "a")
				<-time.After(time.Second)
			}
			trouble.Works(log, "alerts are sent again")
			trouble.Works(log, "alerts are sent again")
			text := out.String()
			if n := strings.Count(text, `level=WARN msg="alerts wait" node=a error="disk full"`); n != 5 {
				t.Errorf("round %d: %d warnings in five minutes, want 5", round, n)
			}
			if n := strings.Count(text, `level=INFO msg="alerts are sent again" after=5m0s`); n != 1 {
				t.Errorf("round %d: told %d times that it is over, want once:\n%s", round, n, text)
			}
		}
	})
}
