package sqlstore_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/pgtest"
)

// counted returns the URL of a database behind a proxy that counts round trips, and the count. PostgreSQL ends its answer to
// whatever it was asked at once with one message, ReadyForQuery: to BEGIN, to a statement, to COMMIT, and to several
// statements that were sent together.
func counted(t *testing.T) (address string, trips *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host, trips = l.Addr().String(), new(atomic.Int64)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			running.Go(func() {
				defer near.Close()
				defer far.Close()
				io.Copy(far, near) // ends with the connection
			})
			running.Go(func() {
				defer near.Close()
				defer far.Close()
				countReady(near, far, trips)
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return u.String(), trips
}

// countReady copies the messages of a server, each of them a type, a length and the rest, and counts those that end an
// answer. It returns when the connection ends.
func countReady(to io.Writer, from io.Reader, trips *atomic.Int64) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		if head[0] == 'Z' {
			trips.Add(1) // before the write: who has read the answer finds it counted
		}
		if _, err := to.Write(head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil {
			return
		}
	}
}

// What a call waits for takes one round trip to PostgreSQL: storing a response, beginning and ending a call that has an
// Idempotency-Key, and repeating its reply. It stays one while the bound of the account makes older ones go.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	address, trips := counted(t)
	s := open(t, address, "")
	key := seal.NewKey()
	replies := idempotency.New(s, slog.New(slog.DiscardHandler), &idempotency.Options{Claims: s, Node: "n", Key: key, Patience: time.Minute})
	archive := responses.NewArchive(s, &responses.ArchiveOptions{Key: key})
	asked, err := responses.Parse([]byte(`{"model":"m","input":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	request := func(n int) idempotency.Request {
		return idempotency.Request{AccountID: "acct_1", Path: "/v1/x", Key: []string{fmt.Sprint("key ", n)}, Body: []byte("body")}
	}
	var turn *idempotency.Turn
	steps := []struct {
		name string
		do   func(n int) error
		want int64
	}{
		{"storing a response", func(n int) error {
			return archive.Keep(t.Context(), "acct_1", asked, fmt.Sprint("resp_", n), []byte(`{"output":[]}`))
		}, 1},
		{"beginning a call that has a key", func(n int) (err error) {
			turn, _, err = replies.Begin(t.Context(), request(n))
			return err
		}, 1},
		{"keeping its reply", func(int) error {
			turn.Record([]byte("reply"), false)
			turn.Keep(t.Context())
			return nil
		}, 1},
		{"repeating its reply", func(n int) error {
			_, reply, err := replies.Begin(t.Context(), request(n))
			if err == nil && reply == nil {
				return fmt.Errorf("there is no reply")
			}
			return err
		}, 1},
	}
	for round, name := range []string{"", "with room", "at the bound"} {
		if round == 2 {
			execute(t, s, `UPDATE response_sizes SET entries = 100000`)
			execute(t, s, `UPDATE idempotent_sizes SET bytes = 67108864`)
		}
		for _, step := range steps {
			before := trips.Load()
			if err := step.do(round); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			// The first round connects, and prepares the statements.
			if got := trips.Load() - before; round > 0 && got != step.want {
				t.Errorf("%s, %s: %d round trips, want %d", step.name, name, got, step.want)
			}
		}
	}
}

// What a call waits for fails at once while the database is known not to answer. Once in a second somebody tries.
func TestKnownAway(t *testing.T) {
	t.Parallel()
	address, trips := counted(t)
	s := open(t, address, "")
	later := time.Now().Add(time.Hour)
	n := 0
	steps := map[string]func() error{
		"KeepResponses": func() error {
			return s.KeepResponses(t.Context(), []*responses.Record{{ID: fmt.Append(nil, n), AccountID: "a", Previous: []byte{}, Sealed: []byte("x"), ExpiresAt: later}}, responses.MaxAccount())
		},
		"KeepReply": func() error {
			return s.KeepReply(t.Context(), &idempotency.Record{ID: fmt.Append(nil, n), AccountID: "a", Sealed: []byte("x"), ExpiresAt: later}, time.Now(), 100)
		},
		"ClaimReply": func() error {
			_, _, _, err := s.ClaimReply(t.Context(), &idempotency.Claim{ID: fmt.Append(nil, n), Body: []byte("b"), Holder: "h", Serial: 1}, time.Now(), time.Minute)
			return err
		},
	}
	for name, do := range steps {
		for _, tt := range []struct {
			name           string
			failing, tried time.Duration // since when, from now
			asks           bool
		}{
			{"a statement was not answered just now", time.Minute, -time.Hour, true}, // this machine may stop for a while
			{"none was answered for an hour", -time.Hour, time.Minute, false},
			{"none was answered for an hour, and nobody has tried", -time.Hour, -time.Hour, true},
		} {
			n++
			sqlstore.Silence(s.Kernel(), time.Now().Add(tt.failing), time.Now().Add(tt.tried))
			before := trips.Load()
			err := do()
			if asked := trips.Load() > before; asked != tt.asks || (err == nil) != tt.asks || err != nil && !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s, %s: %v, asked the database: %t, want %t", name, tt.name, err, asked, tt.asks)
			}
			if h := s.Health(); h.Failing.IsZero() != tt.asks {
				t.Errorf("%s, %s: Health = %+v after it", name, tt.name, h)
			}
		}
	}
}

// A row that is as large as thousands of others makes all of them go that have to, and no more.
func TestTrimMany(t *testing.T) {
	t.Parallel()
	const rows, size = 2500, 10
	now := time.Now()
	later := now.Add(time.Hour)
	for name, address := range map[string]func(t *testing.T) string{
		"SQLite":     func(*testing.T) string { return "sqlite" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, address(t), t.TempDir())
			blob := `CAST(i AS BLOB)`
			if s.Engine() == sqlstore.Postgres {
				blob = `CAST(CAST(i AS TEXT) AS BYTEA)`
			}
			numbers := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)`, rows)
			for _, statement := range []string{
				`INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) %s SELECT %s, 'a', %[2]s, %d, %d + i, %[2]s FROM n`,
				`INSERT INTO idempotent_replies (id, account_id, size, expires_at, sealed) %s SELECT %s, 'a', %d, %d + i, %[2]s FROM n`,
			} {
				execute(t, s, fmt.Sprintf(statement, numbers, blob, size, now.UnixMilli()))
			}
			execute(t, s, fmt.Sprintf(`INSERT INTO response_sizes (account_id, entries, bytes) VALUES ('a', %d, %d)`, rows, rows*size))
			execute(t, s, fmt.Sprintf(`INSERT INTO idempotent_sizes (account_id, bytes) VALUES ('a', %d)`, rows*size))
			// As large as all but the last three.
			large := make([]byte, (rows-3)*size)
			if err := s.KeepResponses(t.Context(), []*responses.Record{{ID: []byte("large"), AccountID: "a", Previous: []byte{}, Sealed: large, ExpiresAt: later}}, responses.Bound{Entries: rows, Bytes: rows * size}); err != nil {
				t.Fatal(err)
			}
			if err := s.KeepReply(t.Context(), &idempotency.Record{ID: []byte("large"), AccountID: "a", Sealed: large, ExpiresAt: later}, now, rows*size); err != nil {
				t.Fatal(err)
			}
			for i := rows - 5; i <= rows; i++ {
				id := []byte(fmt.Sprint(i))
				if links, err := s.FollowResponses(t.Context(), id, now, 1); err != nil || len(links) == 1 != (i > rows-3) {
					t.Errorf("FollowResponses(%d) = %v, %v, want it there: %t", i, links, err, i > rows-3)
				}
				if reply, err := s.FindReply(t.Context(), id, now); err != nil || reply != nil != (i > rows-3) {
					t.Errorf("FindReply(%d) = %q, %v, want it there: %t", i, reply, err, i > rows-3)
				}
			}
			if links, err := s.FollowResponses(t.Context(), []byte("large"), now, 1); err != nil || len(links) != 1 {
				t.Errorf("FollowResponses(large) = %v, %v, want it there", links, err)
			}
			if reply, err := s.FindReply(t.Context(), []byte("large"), now); err != nil || len(reply) != len(large) {
				t.Errorf("FindReply(large) = %d bytes, %v, want it there", len(reply), err)
			}
			// The sums are right: the last three and the large one.
			for _, table := range []string{"response_sizes WHERE entries = 4 AND", "idempotent_sizes WHERE"} {
				if n, err := sqlstore.Count(t.Context(), s.Kernel(), fmt.Sprintf(`%s bytes = %d`, table, rows*size)); err != nil || n != 1 {
					t.Errorf("%s: %d rows, %v, want the sums to be right", table, n, err)
				}
			}
		})
	}
}
