package overview

import (
	"context"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/upstream/routing"
)

const (
	// days is how many days sign-ups and revenue are shown for, today included.
	days = 30
	// lately is how many minutes count for who makes most calls now, the current one included, and hour those of an hour.
	lately = 5
	hour   = 60
	// mostLoaders is how many accounts are named.
	mostLoaders = 20
	// censusEvery is how often accounts are counted and payments added up, at most.
	censusEvery = 30 * time.Second
	// Parts is the number of points in the series of a target: one in five minutes.
	Parts = Kept / 5
)

// Sources is what a report is made of beside the minutes. All fields are required.
type Sources struct {
	// Accounts calls yield with each account.
	Accounts func(yield func(*account.Account))
	// Account returns an account, or nil if it is not known.
	Account func(id string) *account.Account
	// Revenue returns what was paid on each day from a time on, by the number of the day since 1970.
	Revenue func(ctx context.Context, from time.Time) (map[int64]Income, error)
	// Videos returns how many jobs wait on all nodes, and how long the oldest has waited.
	Videos func(now time.Time) (waiting int, age time.Duration, err error)
	// Nodes returns how many servers are alive.
	Nodes func() int
}

// Income is what was paid on a day, without what was refunded of it.
type Income struct {
	Payments int64 `json:"payments"`
	Cents    int64 `json:"cents"`
}

// Point is a minute of the service as a whole. Times are in milliseconds, of the calls that ended in it.
type Point struct {
	At        time.Time `json:"at"`
	Calls     int64     `json:"calls"`
	Failed    int64     `json:"failed"`
	Refused   int64     `json:"refused"`
	Prompt    int64     `json:"prompt_tokens"`
	Answer    int64     `json:"completion_tokens"`
	Median    int64     `json:"latency_p50_ms"`
	Slow      int64     `json:"latency_p95_ms"`
	First     int64     `json:"first_token_p50_ms"`
	SlowFirst int64     `json:"first_token_p95_ms"`
	Running   int64     `json:"running"`
	Streams   int64     `json:"streams"`
	Journal   int64     `json:"journal_records"`
}

// Busy is an account that makes many calls.
type Busy struct {
	Loader
	Email string `json:"email"`
	Plan  string `json:"plan"`
}

// PlanCount is how many accounts have a plan.
type PlanCount struct {
	Plan     string `json:"plan"`
	Accounts int    `json:"accounts"`
}

// Day is what happened on a day in UTC.
type Day struct {
	At      time.Time `json:"at"`
	SignUps int       `json:"sign_ups"`
	Income
}

// Targets counts the targets of the node that was asked: all, and those that are down or drained.
type Targets struct {
	All     int `json:"all"`
	Down    int `json:"down"`
	Drained int `json:"drained"`
}

// Videos is the queue of video jobs. OldestSeconds is how long the oldest has waited.
type Videos struct {
	Waiting       int   `json:"waiting"`
	OldestSeconds int64 `json:"oldest_seconds"`
}

// Report is the state of the service at a glance.
type Report struct {
	At     time.Time `json:"at"`
	Nodes  int       `json:"nodes"`
	Points []Point   `json:"minutes"` // the last one is the current minute
	// Busy are the accounts that made most calls in the last five minutes.
	Busy []Busy `json:"busy"`
	// BusyHour are those of the last hour.
	BusyHour []Busy  `json:"busy_hour"`
	Targets  Targets `json:"targets"`
	Videos   Videos  `json:"videos"`
	// Accounts is how many there are, Plans which plans they have, and Days what the last 30 days brought.
	Accounts int         `json:"accounts"`
	Plans    []PlanCount `json:"plans"`
	Days     []Day       `json:"days"`
	// Problems are what could not be found out, in words.
	Problems []string `json:"problems,omitempty"`
}

// Reporter makes reports.
type Reporter struct {
	board *Board
	Sources

	mu      sync.Mutex // held while counting, too: nobody else needs to count then
	counted time.Time
	census  census
}

// census is what takes long to count.
type census struct {
	accounts int
	plans    []PlanCount
	days     []Day
	problem  string
}

// NewReporter returns a reporter that reports what a board knows.
func NewReporter(b *Board, s Sources) *Reporter { return &Reporter{board: b, Sources: s} }

// Report returns the state of the service now.
func (d *Reporter) Report(ctx context.Context) Report {
	now := d.board.now().UTC()
	minutes := d.board.Minutes(ctx)
	r := Report{At: now, Nodes: d.Nodes(), Points: make([]Point, len(minutes)), Busy: d.busy(minutes[len(minutes)-lately:]), BusyHour: d.busy(minutes[len(minutes)-hour:])}
	for i := range minutes {
		r.Points[i] = minutes[i].point()
	}
	for _, t := range d.board.sample().Targets {
		r.Targets.All++
		if t.Down {
			r.Targets.Down++
		}
		if t.Drained {
			r.Targets.Drained++
		}
	}
	waiting, age, err := d.Videos(now)
	if err != nil {
		r.Problems = append(r.Problems, "The queue of videos is not known: the database does not answer.")
	}
	r.Videos = Videos{Waiting: waiting, OldestSeconds: int64(age.Seconds())}
	c := d.count(ctx, now)
	r.Accounts, r.Plans, r.Days = c.accounts, c.plans, c.days
	if c.problem != "" {
		r.Problems = append(r.Problems, c.problem)
	}
	return r
}

// busy returns the accounts that made most calls in some minutes.
func (d *Reporter) busy(minutes []Minute) []Busy {
	list := []Busy{}
	for _, l := range Loaders(minutes, mostLoaders) {
		b := Busy{Loader: l}
		if a := d.Account(l.AccountID); a != nil {
			b.Email, b.Plan = a.Email, a.Plan.String()
		}
		list = append(list, b)
	}
	return list
}

// point returns what a chart shows of the minute.
func (m *Minute) point() Point {
	return Point{
		At: m.At, Calls: m.Calls, Failed: m.Failed, Refused: m.Refused, Prompt: m.Prompt, Answer: m.Completion,
		Median: m.Took.Quantile(0.5).Milliseconds(), Slow: m.Took.Quantile(0.95).Milliseconds(),
		First: m.First.Quantile(0.5).Milliseconds(), SlowFirst: m.First.Quantile(0.95).Milliseconds(),
		Running: m.Running, Streams: m.Streams, Journal: m.Journal,
	}
}

// count counts accounts and adds up payments, unless that was done a moment ago.
func (d *Reporter) count(ctx context.Context, now time.Time) census {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.counted.IsZero() && now.Sub(d.counted) < censusEvery {
		return d.census
	}
	first := now.Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	c := census{days: make([]Day, days)}
	for i := range c.days {
		c.days[i].At = first.AddDate(0, 0, i)
	}
	byPlan := map[account.Plan]int{}
	d.Accounts(func(a *account.Account) {
		c.accounts++
		byPlan[a.Plan]++
		if i := int(a.CreatedAt.Sub(first) / (24 * time.Hour)); !a.CreatedAt.Before(first) && i < days {
			c.days[i].SignUps++
		}
	})
	for p := account.None; p <= account.Scale; p++ {
		c.plans = append(c.plans, PlanCount{p.String(), byPlan[p]})
	}
	income, err := d.Revenue(ctx, first)
	if err != nil {
		c.problem = "The revenue is not known: the database does not answer."
	}
	for i := range c.days {
		c.days[i].Income = income[c.days[i].At.Unix()/int64(24*60*60)]
	}
	d.census, d.counted = c, now
	return c
}

// Upstream is a target of the node that was asked, and what all nodes did with it in the last three hours, in parts of
// five minutes.
type Upstream struct {
	routing.TargetHealth
	Series []Target `json:"series"`
}

// Upstreams returns the targets of this node with their series.
func (d *Reporter) Upstreams(ctx context.Context) []Upstream {
	minutes := d.board.Minutes(ctx)
	list := []Upstream{}
	for _, s := range d.board.sample().Targets {
		list = append(list, Upstream{s, Series(minutes, &s, Parts)})
	}
	return list
}
