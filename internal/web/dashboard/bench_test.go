package dashboard_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/account/billing"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/ticket"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/dashboard"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

// usageRows is how many usage rows the pages are timed with; storing a million takes minutes.
func usageRows() int {
	if os.Getenv("SLUICE_SOAK") != "" {
		return 1_000_000
	}
	return 100_000
}

// BenchmarkPages tells the server's time for each page with many usage rows, nearly all of them of the
// visitor's account.
func BenchmarkPages(b *testing.B) {
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		b.Run(fmt.Sprint(engine, "/", usageRows(), "rows"), func(b *testing.B) {
			database := "sqlite"
			if engine == "PostgreSQL" {
				database = pgtest.URL(b)
			}
			store, err := alltest.Open(b.Context(), database, b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			handler, visitor, cookie := open(b, store)
			fill(b, store, visitor, usageRows())
			for _, path := range []string{"", "/keys", "/activity", "/activity?range=1h", "/activity?range=6h", "/activity?range=7d", "/activity?range=30d", "/activity?range=7d&model=model-1&by=key", "/activity?range=7d&outcome=errors", "/activity?range=30d&key=key_none", "/models", "/playground", "/videos", "/plan", "/messages", "/account"} {
				b.Run("dashboard"+strings.ReplaceAll(path, "?", "+"), func(b *testing.B) {
					r := httptest.NewRequest("GET", "/dashboard"+path, nil)
					r.AddCookie(cookie)
					for b.Loop() {
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, r)
						if w.Code != http.StatusOK {
							b.Fatalf("GET %s = %d %s", path, w.Code, w.Body)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
				})
			}
		})
	}
}

type nowhere struct{}

func (nowhere) Post(mail.Message) {}

// open makes the pages over a store, and signs somebody in.
func open(b *testing.B, store *alltest.Store) (http.Handler, *account.Account, *http.Cookie) {
	b.Helper()
	const origin = "http://127.0.0.1:8080"
	index := auth.NewIndex()
	accounts := account.New(store, &account.Options{OnChange: index.Put})
	visitor, _, err := accounts.Create(b.Context(), "bench", "busy@example.com", account.Scale, false)
	if err != nil {
		b.Fatal(err)
	}
	models, err := catalog.New(append([]catalog.Model{catalog.Router("service")}, catalog.Sandbox()...))
	if err != nil {
		b.Fatal(err)
	}
	logins := signin.New(store, accounts, nowhere{}, func() signin.Settings { return signin.Settings{Origin: origin} }, nil)
	ui := webui.New(func() webui.Settings { return webui.Settings{Origin: origin, Brand: "service"} }, slog.New(slog.DiscardHandler))
	handler := dashboard.New(ui, dashboard.Sources{
		Logins: logins, Accounts: accounts, Account: index.Account, LastUsed: index.LastUsed, Plans: account.BuiltinPlans, Catalog: func() *catalog.Catalog { return models },
		Ledger: admission.NewMemory(nil), Abuse: abuse.New(store, abuse.Options{Plans: account.BuiltinPlans}), Usage: store, Activity: activity.New(store, store, nil), Refusals: store,
		Tickets: ticket.NewOffice(store, nil, func() ticket.Settings { return ticket.Settings{} }, nil), Notices: notice.New(store, nowhere{}, func() string { return origin }, nil), Billing: billing.New(store, nil), VideoModel: func() string { return "video-default" }, VideosKept: func() time.Duration { return time.Hour },
		Models: &front.ModelInfo{Catalog: func() *catalog.Catalog { return models }, Health: func(*catalog.Model) string { return "healthy" }, Record: noRecord{}, Video: func() catalog.Model { return catalog.Model{ID: "video-default", Plan: account.Free} }},
	}).Handler()

	link, err := logins.SignInLink(b.Context(), visitor.Email)
	if err != nil {
		b.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("POST", u.Path, strings.NewReader(u.RawQuery))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusSeeOther {
		b.Fatalf("POST %s = %d %s", u.Path, w.Code, w.Body)
	}
	return handler, visitor, w.Result().Cookies()[0]
}

// noRecord knows nothing of models.
type noRecord struct{}

func (noRecord) History(context.Context) map[overview.Subject][]overview.Span { return nil }
func (noRecord) Lately(context.Context, string, int) []overview.Span          { return nil }

// fill stores calls of the last 31 days, by 6 keys and 8 models; a tenth of them is of 500 other accounts.
func fill(b *testing.B, store *alltest.Store, visitor *account.Account, rows int) {
	b.Helper()
	const size = 2000
	now := time.Now()
	batch := make([]usage.Settlement, 0, size)
	for i := range rows {
		r := usage.Settlement{
			ID: fmt.Sprintf("%032x", i), At: now.Add(-time.Duration(i) * (31 * 24 * time.Hour / time.Duration(rows))).Truncate(time.Millisecond), AccountID: visitor.ID, KeyID: fmt.Sprint("key_", i%6),
			Plan: "scale", Tier: "free", ModelAsked: "m", ModelUsed: fmt.Sprint("model-", i/6%8), Provider: "p", Tokens: chat.Usage{Prompt: 57, Completion: 143},
			RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Second, FirstToken: time.Millisecond,
		}
		if i%10 == 0 {
			r.AccountID = fmt.Sprint("acct_", i/10%500)
		}
		if batch = append(batch, r); len(batch) == size || i == rows-1 {
			if err := store.RecordSettlements(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}
