package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

// patience says how long a Store waits for its database.
// Tests have shorter ones, so that they can wait for them.
type patience struct {
	// call is for a statement or a transaction, with the wait for a connection. A caller with less time ends
	// earlier; no caller has more, except for settle and Long.
	call time.Duration
	// settle is the same for a batch of settlements: thousands of rows, and nobody waits for them.
	settle time.Duration
	// silence is how long the database may not answer anything while long works.
	silence time.Duration
	// connect is how long connecting may take, also in the background.
	connect time.Duration
}

// usual is the patience of every Store, except for those of some tests.
var usual = patience{call: 10 * time.Second, settle: 15 * time.Second, silence: 30 * time.Second, connect: 5 * time.Second}

const (
	// lostAfter is how long no statement may have been answered until idle connections are given up: after a
	// failover they may all be silent, and each would cost a caller its whole patience.
	lostAfter = 2 * time.Second
	// abandonedAfter is how long PostgreSQL waits for the next statement of a transaction. A process that was
	// frozen in the middle of one holds locks, and the other nodes wait for them.
	abandonedAfter = 30 * time.Second

	// awayAfter is how long nothing may have been answered until calls no longer wait for the database; see state.away.
	awayAfter = time.Second

	longest = 6 * time.Hour // bounds Long

	// checkAfter is after which time a connection is asked for a sign of life before it is used again.
	checkAfter = time.Second
)

// portion returns the part of a patience, in tenths, after which something that is silent is tried again on a new
// connection: a sign of life after three, a query or the beginning of a transaction after six. A slow database still
// has most of the time, and a second try has the rest.
func portion(patience time.Duration, tenths int64) time.Duration {
	return patience * time.Duration(tenths) / 10
}

// pool is a set of connections. It has no method without a deadline: frozen connections, which accept a
// statement and never answer it, look like a slow database to the driver, and would hold a caller for ever.
//
// Every statement goes through one of its methods, which do three things: add the deadline, retry
// on a new connection where that is safe, and note how it ended, for Health.
type pool struct {
	db       *sql.DB
	idle     int // how many unused connections are kept
	patience *patience
	state    *state
	answered atomic.Int64 // when a statement of this pool was last answered, in Unix nanoseconds
	again    bool         // what a silent connection did not answer is tried once more on another one
}

// newPool returns a pool of at most open connections.
func (s *Store) newPool(db *sql.DB, open, idle int) *pool {
	db.SetMaxOpenConns(open)
	db.SetMaxIdleConns(idle)
	return &pool{db: db, idle: idle, patience: &s.patience, state: &s.state}
}

// openPostgres returns the settings of a connection to PostgreSQL. The error does not repeat the URL, which may
// hold a password.
func openPostgres(url string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the database URL cannot be read; expected postgres://user:password@host:port/name")
	}
	// The driver has no default. A URL may ask for less.
	if c.ConnectTimeout <= 0 || c.ConnectTimeout > usual.connect {
		c.ConnectTimeout = usual.connect
	}
	// A peer that vanished without a word is noticed within half a minute, also on a connection that waits.
	c.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}, Control: giveUpUnacked}).DialContext
	return c, nil
}

// connectPostgres opens a pool on such settings, without connecting yet.
// The functions use p, which is set before the first connection is made.
func (s *Store) connectPostgres(c *pgx.ConnConfig, open, idle int) *pool {
	var p *pool
	db := stdlib.OpenDB(*c,
		// A database that was too slow for a batch may be too slow for a new connection, which takes several replies, too.
		stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
			c.ConnectTimeout = min(c.ConnectTimeout, s.patience.connect) << s.late.Load()
			return nil
		}),
		// Set by a statement and not when connecting: poolers refuse parameters there that they do not know.
		stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", abandonedAfter.Milliseconds()))
			return err
		}),
		// The driver would wait for a sign of life as long as its caller does, and leave no time for another connection.
		stdlib.OptionShouldPing(func(ctx context.Context, params stdlib.ShouldPingParams) bool {
			if params.IdleDuration <= checkAfter {
				return false
			}
			ctx, cancel := context.WithTimeout(ctx, portion(s.patience.call, 3))
			defer cancel()
			if params.Conn.PgConn().Ping(ctx) == nil {
				return false
			}
			// After a failover all that wait are silent. This one is closed; the driver's own ping finds that out.
			p.dropIdle()
			return true
		}))
	p = s.newPool(db, open, idle)
	p.again = true
	return p
}

// inLong marks the context of Long.
type inLong struct{}

// within returns a context that ends after patience at the latest. Inside Long it is ctx.
func within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) <= patience || ctx.Value(inLong{}) != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}

// ExecContext runs a statement.
// It is never repeated: a statement without a reply may have been executed.
func (p *pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, cancel := within(ctx, p.patience.call)
	defer cancel()
	res, err := p.db.ExecContext(ctx, query, args...)
	p.note(err)
	p.wrote(err)
	return res, err
}

// rowScanner is one row, of a pool or of a transaction.
type rowScanner interface{ Scan(to ...any) error }

// first runs a query and gives scan its first row, maybe twice.
func (p *pool) first(ctx context.Context, scan func(Row) error, query string, args ...any) error {
	err := p.twice(ctx, query, func(ctx context.Context) (bool, error) {
		err := scan(Row{p.db.QueryRowContext(ctx, query, args...)})
		return err != nil, err
	})
	p.note(err)
	return err
}

// scan reads the columns of a query's first row.
func (p *pool) scan(ctx context.Context, query string, to ...any) error {
	return p.first(ctx, func(row Row) error { return row.Scan(to...) }, query)
}

// twice runs a query within the pool's patience. One that only reads and was not answered for most of that time is run
// once more, on a new connection: after a failover the old ones are silent for ever. do reports whether it can be run
// again.
//
// It is not repeated if the caller has less time than the patience: the deadline is then the
// caller's own, and no time is left for a second try.
func (p *pool) twice(ctx context.Context, query string, do func(context.Context) (again bool, err error)) error {
	whole, cancel := within(ctx, p.patience.call)
	defer cancel()
	if !p.again || whole == ctx || !strings.HasPrefix(strings.TrimSpace(query), "SELECT") {
		_, err := do(whole)
		return err
	}
	first, cancel := context.WithTimeout(whole, portion(p.patience.call, 6))
	defer cancel()
	again, err := do(first)
	if err == nil || !again || !errors.Is(first.Err(), context.DeadlineExceeded) || whole.Err() != nil {
		return err
	}
	p.dropIdle()
	_, err = do(whole)
	return err
}

// begin begins a transaction, once more on a new connection if the first is silent. Nothing has happened until then.
// The caller calls the returned function when the transaction has ended.
func (p *pool) begin(ctx context.Context, patience time.Duration, opts *sql.TxOptions) (*sql.Tx, context.CancelFunc, error) {
	if !p.again || ctx.Value(inLong{}) != nil {
		tx, err := p.db.BeginTx(ctx, opts)
		return tx, func() {}, err
	}
	// A deadline would also end what follows, so it is a timer that is stopped in time.
	first, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(portion(patience, 6), cancel)
	tx, err := p.db.BeginTx(first, opts)
	if timer.Stop() {
		return tx, cancel, err
	}
	cancel()
	if err == nil {
		_ = tx.Rollback() // it came at the last moment, and was ended
	}
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	p.dropIdle()
	tx, err = p.db.BeginTx(ctx, opts)
	return tx, func() {}, err
}

// errUnbounded is a mistake in this program.
var errUnbounded = errors.New("a query without a deadline: use each")

// QueryContext is for each, which adds a deadline and ends the query.
func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if _, ok := ctx.Deadline(); !ok {
		return nil, errUnbounded
	}
	return p.db.QueryContext(ctx, query, args...)
}

// tx runs work in one transaction. It commits if work returns nil and rolls back otherwise. The patience is that
// of the whole transaction, which work gets as its context.
func (p *pool) tx(ctx context.Context, patience time.Duration, opts *sql.TxOptions, work func(ctx context.Context, tx *sql.Tx) error) (err error) {
	ctx, cancel := within(ctx, patience)
	defer cancel()
	defer func() {
		if p.note(err); opts == nil {
			p.wrote(err)
		}
	}()
	tx, release, err := p.begin(ctx, patience, opts)
	defer release()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := work(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// raw runs work with a connection of the driver itself, within a patience.
// The connection returns to the pool afterwards, unless work returns driver.ErrBadConn.
func (p *pool) raw(ctx context.Context, patience time.Duration, work func(ctx context.Context, conn any) error) (err error) {
	ctx, cancel := within(ctx, patience)
	defer cancel()
	defer func() {
		p.note(err)
		p.wrote(err)
	}()
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return work(ctx, c) })
}

// inDriverTx runs work in a transaction of a driver's connection. It runs while the connection is locked, so nothing else
// can end the transaction before work does.
func inDriverTx(ctx context.Context, c any, work func(ctx context.Context, conn driver.Conn) error) error {
	conn, ok := c.(interface {
		driver.Conn
		driver.ConnBeginTx
	})
	if !ok {
		return fmt.Errorf("a %T has no transactions", c)
	}
	tx, err := conn.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return err
	}
	if err := work(ctx, conn); err != nil {
		// A connection that cannot even roll back is closed.
		if failed := tx.Rollback(); failed != nil {
			err = fmt.Errorf("%w (%w: %w)", err, driver.ErrBadConn, failed)
		}
		return err
	}
	return tx.Commit()
}

// send sends statements to PostgreSQL at once. It runs what comes until the end of the batch in one transaction.
func (p *pool) send(ctx context.Context, steps []Step) error {
	return p.raw(ctx, p.patience.call, func(ctx context.Context, c any) error {
		pg, ok := c.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("a %T cannot take statements at once", c)
		}
		var batch pgx.Batch
		for _, st := range steps {
			batch.Queue(st.Query, stored(st.Args)...)
		}
		results := pg.Conn().SendBatch(ctx, &batch)
		for _, st := range steps {
			if err := st.read(results); err != nil {
				_ = results.Close() // the same error
				return err
			}
		}
		return results.Close()
	})
}

// Connect opens a connection to PostgreSQL of its own, for what does not end with a statement.
func (s *Store) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, Clean(err)
	}
	return conn, nil
}

// Near returns the address that this machine has on its way to PostgreSQL, or the zero Addr if there is none, as for a
// socket in a folder. It sends nothing.
func (s *Store) Near(ctx context.Context) netip.Addr {
	if s.config == nil || strings.HasPrefix(s.config.Host, "/") {
		return netip.Addr{}
	}
	conn, err := (&net.Dialer{Timeout: usual.connect}).DialContext(ctx, "udp", net.JoinHostPort(s.config.Host, strconv.Itoa(int(s.config.Port))))
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	at, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	return at.Addr().WithZone("")
}

// conn reserves one connection. What is done with it needs the deadline of Long, or one of its own.
func (p *pool) conn(ctx context.Context) (*sql.Conn, error) {
	ctx, cancel := within(ctx, p.patience.call)
	defer cancel()
	c, err := p.db.Conn(ctx)
	p.note(err)
	return c, err
}

// migrator returns goose on the connections of the pool. It has no deadlines of its own: it is called within Long.
func (p *pool) migrator(dialect goose.Dialect, files fs.FS, options ...goose.ProviderOption) (*goose.Provider, error) {
	return goose.NewProvider(dialect, p.db, files, options...)
}

// ping asks for a sign of life.
func (p *pool) ping(ctx context.Context) error {
	ctx, cancel := within(ctx, p.patience.call)
	defer cancel()
	err := p.db.PingContext(ctx)
	p.note(err)
	return err
}

// note keeps the health of the database. Idle connections are closed if none of this pool answers any more; others may
// be newer.
func (p *pool) note(err error) {
	now := time.Now()
	if !p.state.note(err, now) {
		if !errors.Is(err, context.Canceled) {
			p.answered.Store(now.UnixNano())
		}
		return
	}
	if errors.Is(err, context.DeadlineExceeded) && now.Sub(time.Unix(0, p.answered.Load())) > lostAfter {
		p.dropIdle()
	}
}

// dropIdle closes the connections that nobody uses.
// database/sql has no method for it; it closes the surplus when the limit is lowered.
func (p *pool) dropIdle() {
	p.db.SetMaxIdleConns(-1)
	p.db.SetMaxIdleConns(p.idle)
}

// wrote notes a write that the database took.
func (p *pool) wrote(err error) {
	if err == nil && p.state.refused.Load() != nil {
		p.state.refused.Store(nil)
	}
}

// state is what all pools of a Store know about their database.
// It is all atomics, because every statement writes to it.
type state struct {
	answered atomic.Int64              // when a statement was last answered, in Unix nanoseconds
	failing  atomic.Int64              // when the first statement since then was not; 0: none
	refused  atomic.Pointer[rejection] // the last write that the database refused; nil after one that it took

	unwritable atomic.Bool // what the last Look has found

	tried atomic.Int64 // when away last let somebody try, in Unix nanoseconds
}

// rejection is a refusal to store anything.
type rejection struct {
	at  time.Time
	err error
}

// note records how a statement ended. It reports whether it was not answered.
func (h *state) note(err error, now time.Time) (silent bool) {
	switch {
	// A caller who leaves says nothing about the database.
	case errors.Is(err, context.Canceled):
		return false
	case err == nil || !isUnanswered(err):
		if err != nil && isRefusal(err) {
			h.refused.Store(&rejection{now, err})
		}
		h.answered.Store(now.UnixNano())
		h.failing.Store(0)
		return false
	}
	h.failing.CompareAndSwap(0, now.UnixNano())
	return true
}

// away reports whether the database is known not to answer: a statement was given up at least awayAfter ago, and none was
// answered since. Once in that time it lets somebody try. A database that is only slow is not away: a server asks for
// something else twice a second.
func (h *state) away(now time.Time) bool {
	failing := h.failing.Load()
	if failing == 0 || now.UnixNano()-failing < int64(awayAfter) {
		return false
	}
	tried := h.tried.Load()
	return now.UnixNano()-tried < int64(awayAfter) || !h.tried.CompareAndSwap(tried, now.UnixNano())
}

// Health says how the database has been answering.
type Health struct {
	Answered time.Time // when it last answered; zero if it never has
	Failing  time.Time // since when it does not; zero while it does
}

// Health returns how the database has been answering, without asking it.
func (s *Store) Health() (h Health) {
	if at := s.state.answered.Load(); at != 0 {
		h.Answered = time.Unix(0, at)
	}
	if at := s.state.failing.Load(); at != 0 {
		h.Failing = time.Unix(0, at)
	}
	return h
}

// refusalLasts is how long a refused write counts. While settlements wait, another is tried within seconds; if
// none does, nobody can tell whether it would still be refused, and a server without work would never get any.
const refusalLasts = 15 * time.Second

// Look asks the database how it is. One that answers and stores nothing, or whose tables do not fit, has failed; one
// that does not answer is away. In neither case are calls refused: those with known keys continue, and what they cost
// waits in the journal.
func (s *Store) Look(ctx context.Context) (f health.Finding) {
	var version int64
	var readOnly bool
	query := `SELECT COALESCE(MAX(version_id), 0), FALSE FROM goose_db_version`
	if s.engine == Postgres {
		query = `SELECT COALESCE(MAX(version_id), 0), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' FROM goose_db_version`
	}
	err := s.read.scan(ctx, query, &version, &readOnly)
	refused := s.state.refused.Load()
	switch {
	case err != nil && isUnanswered(err):
		answered := time.Unix(0, s.state.answered.Load())
		f.Age, f.Err = time.Since(answered), Clean(err)
		f.Message = fmt.Sprintf("no answer for %s: known keys keep working, and nothing can be changed", f.Age.Round(time.Second))
	case err != nil:
		f = health.Failure(fmt.Errorf("the tables cannot be read: %w", Clean(err)))
		f.Message = "the tables cannot be read"
	case version < s.known:
		f = health.Failure(fmt.Errorf("the tables are at version %d and this program needs %d", version, s.known))
		f.Message = "the tables are older than this program"
	case readOnly:
		f = health.Failure(errors.New("PostgreSQL is read-only: it is a standby, or default_transaction_read_only is set"))
		f.Message = "read-only: calls with known keys continue and are settled later, and nothing can be changed"
	case refused != nil && time.Since(refused.at) < refusalLasts:
		f = health.Failure(Clean(refused.err))
		f.Message = "it stores nothing: calls with known keys continue and are settled later, and nothing can be changed"
	case version > s.known:
		f.Message = "a newer program has migrated the tables"
	}
	s.state.unwritable.Store(f.Failed || f.Age > 0)
	return f
}

// Writable reports whether the last Look has found a database that stores what it is given.
func (s *Store) Writable() bool { return !s.state.unwritable.Load() }

// Pools returns the pools of connections by their names, for their metrics. On PostgreSQL reading and writing share
// one; on SQLite there is none for signs of life.
func (s *Store) Pools() map[string]*sql.DB {
	if s.engine == Postgres {
		return map[string]*sql.DB{"main": s.write.db, "vital": s.vital.db}
	}
	return map[string]*sql.DB{"write": s.write.db, "read": s.read.db}
}

// Long runs work that may take hours, such as a migration of large tables. Its statements have no deadline of
// their own: nobody can say how long they should take. Instead the work ends when the database has not answered
// anything for a while, which is asked on other connections.
//
// A Long inside another one is part of it.
func (s *Store) Long(ctx context.Context, work func(context.Context) error) error {
	if ctx.Value(inLong{}) != nil {
		return work(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(context.WithValue(ctx, inLong{}, true), longest, errors.New("it took longer than six hours"))
	defer cancel()
	// On a connection that went silent while it was idle, the work would wait although the database answers others.
	// One that goes silent later is noticed by the system, which expects acknowledgements.
	if s.engine == Postgres {
		s.write.dropIdle()
	}
	ctx, lost := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, lost) })
	defer watching.Wait()
	defer lost(nil)
	err := work(ctx)
	// Why it was canceled says more than that it was.
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// watch calls lost when the database has not answered for too long. It returns when ctx ends.
func (s *Store) watch(ctx context.Context, lost context.CancelCauseFunc) {
	every := s.patience.silence / 10
	answered := time.Now()
	for range pace.Every(ctx, every) {
		// SQLite answers as long as the disk does; its one writer may be busy with the work itself.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), every)
		var one int
		err := s.watcher().scan(asking, "SELECT 1", &one)
		cancel()
		if err == nil {
			answered = time.Now()
		} else if time.Since(answered) > s.patience.silence {
			lost(fmt.Errorf("the database has not answered for %s", s.patience.silence))
			return
		}
	}
}

// watcher returns the pool on which watch asks: one that the work does not use up.
func (s *Store) watcher() *pool {
	if s.engine == Postgres {
		return s.vital
	}
	return s.read
}
