package demo

import (
	"time"

	"sluice/internal/account"
)

// The company is made up. Names below .example belong to nobody (RFC 2606).
const (
	company = "Tidewater Books"
	domain  = "@tidewater.example"
)

// person is somebody of the company, with an account.
type person struct {
	name  string // before the @ of the address
	joins int    // days after the beginning of the history
	plan  account.Plan
	card  string // that pays the plan
	keys  []key
	// budgets are what the programs of the person may cost. The scope of one for a key has the key's name.
	budgets []account.Budget
}

// key is a sub-key: one for each program of the company.
type key struct {
	name   string
	limits *account.KeyLimits
	tags   []string
}

// dollar is a dollar as amounts of budgets count it.
const dollar = 1_000_000_000

// Cards of the test processor.
const (
	goodCard = "4242424242424242"
	badCard  = "4000000000000341" // declines renewals
)

// The people who have a part in what happens.
const (
	engineering = "mira"
	data        = "jonas"
	care        = "lena"
	marketing   = "sofia"
	mobile      = "omar"
	research    = "priya"
	intern      = "theo"
	helpdesk    = "ines" // staff of the console
)

// people are the accounts of the company, beside the owner's.
func people() []person {
	return []person{
		{engineering, 0, account.Premium, goodCard, []key{
			{"support bot", nil, []string{"team=support", "env=production"}},
			{"code review", &account.KeyLimits{UnitsPerMonth: limit(20_000)}, []string{"team=platform"}},
			{"search", nil, []string{"team=shop", "env=production"}},
			{"nightly reports", nil, []string{"team=platform"}},
			{"staging", &account.KeyLimits{RequestsPerMinute: limit(5), Models: []string{haiku, luna}}, []string{"env=staging"}},
		}, []account.Budget{
			{Name: "engineering", Amount: 150 * dollar, Window: account.Monthly, Timezone: "Europe/Oslo", Scope: account.BudgetScope{Account: true}}, // a hard one would refuse models without a price
			{Name: "code review", Amount: 6 * dollar, Window: account.Daily, Timezone: "Europe/Oslo", Scope: account.BudgetScope{Key: "code review"}, Hard: true},
			{Name: "each task of an agent", Amount: 3 * dollar, Window: account.Total, Scope: account.BudgetScope{Session: account.EachSession}, Hard: true},
			{Name: "customer support", Amount: 40 * dollar, Window: account.Rolling30, Scope: account.BudgetScope{Tag: "team=support"}, Hard: true},
		}},
		{helpdesk, 0, account.None, "", nil, nil},
		{data, 1, account.Premium, goodCard, []key{{"notebooks", nil, nil}, {"catalogue", nil, nil}}, nil},
		{care, 2, account.Basic, goodCard, []key{{"chat widget", &account.KeyLimits{RequestsPerMinute: limit(6)}, nil}}, nil},
		{marketing, 3, account.Premium, goodCard, []key{{"campaigns", nil, nil}}, nil},
		{mobile, 3, account.Basic, badCard, []key{{"ios app", nil, nil}, {"android app", nil, nil}}, nil},
		{research, 5, account.Basic, goodCard, []key{{"experiments", nil, nil}}, nil},
		{intern, 12, account.Free, "", []key{{"thesis", nil, nil}}, nil},
	}
}

func limit(n account.Limit) *account.Limit { return &n }

// The models, by their ids. Those with the names of well-known ones have their prices; the sandbox answers for all.
const (
	sonnet  = "claude-sonnet-5-5"
	haiku   = "claude-haiku-5-5"
	sol     = "gpt-6-sol"
	luna    = "gpt-6-luna"
	flash   = "gemini-3.8-flash"
	embed   = "text-embedding-3-small"
	router  = "service/auto"
	sandbox = "sandbox/small"
	videos  = "video-default"
)

// offered is a model of the configuration.
type offered struct {
	id       string
	kind     string // of the list of well-known models
	provider string // who serves it
	second   string // who else does; empty: nobody
	answers  string // the sandbox model that answers
}

// models are the models of the configuration.
func models() []offered {
	return []offered{
		{sonnet, "anthropic", "anthropic", "bedrock", "sandbox/large"},
		{haiku, "anthropic", "anthropic", "", "sandbox/small"},
		{sol, "openai", "openai", "azure", "sandbox/reasoner"},
		{luna, "openai", "openai", "", "sandbox/small"},
		{flash, "gemini", "google", "", "sandbox/large"},
		{embed, "openai", "openai", "", "sandbox/embed"},
	}
}

// providers returns the names of all who serve models.
func providers() []string { return []string{"anthropic", "bedrock", "openai", "azure", "google"} }

// hours are the shares of a day's calls, by hour (UTC).
type hours [24]float64

// When programs of different kinds are busy.
var (
	office  = hours{7: 1, 8: 4, 9: 8, 10: 9, 11: 8, 12: 5, 13: 8, 14: 9, 15: 8, 16: 6, 17: 3, 18: 1}
	visits  = hours{3, 2, 2, 2, 2, 3, 4, 6, 7, 7, 8, 8, 8, 8, 7, 7, 8, 8, 9, 10, 10, 8, 6, 4}
	nightly = hours{2: 6, 3: 3}
)

// workload is what one key is used for.
type workload struct {
	person, key string
	perDay      float64 // calls of a working day at the end of the history
	when        hours
	weekend     float64 // of perDay
	models      []share
	prompt      int // tokens of a usual call
	reply       int
	cached      float64 // share of the prompt that the vendor has kept
	tools       float64 // share of the calls that call tools on an MCP server
	prompts     []string
	session     int // how many calls an agent needs for a task; 0: the program names no sessions
}

// share is a model, and how much of the work it does.
type share struct {
	model string
	of    float64
}

// workloads are what the company does.
func workloads() []workload {
	return []workload{
		{engineering, "support bot", 280, visits, 0.7, []share{{haiku, 6}, {sonnet, 2}, {router, 2}}, 2600, 260, 0.62, 0.3, []string{
			"Where is my parcel? Order 4711.", "Can I return a book that I have opened?", "Summarise: the customer waits for two books and wants one of them sooner.",
		}, 0},
		{engineering, "code review", 85, office, 0.1, []share{{sonnet, 6}, {sol, 3}}, 9200, 820, 0.71, 0.15, []string{
			"Review this change: for i := 0; i <= len(list); i++ { total += list[i] }", "Is this query safe? SELECT * FROM orders WHERE id = '1'",
		}, 24},
		{engineering, "search", 330, visits, 0.9, []share{{embed, 7}, {luna, 3}}, 380, 60, 0, 0, []string{
			"Sort by relevance: harbour, tide, lighthouse", "How many words are in: the old man and the sea",
		}, 0},
		{engineering, "nightly reports", 45, nightly, 1, []share{{flash, 5}, {luna, 2}}, 14500, 900, 0.1, 0, []string{
			"What is 1249 + 1804 + 977?", "Sort: 31.20, 18.00, 44.95, 12.50",
		}, 0},
		{engineering, "staging", 12, office, 0, []share{{haiku, 1}, {luna, 1}}, 600, 90, 0, 0, []string{"Say hello."}, 0},
		{data, "notebooks", 55, office, 0.15, []share{{sol, 4}, {sonnet, 3}, {router, 3}}, 3100, 640, 0.2, 0.1, []string{
			"What is 17 * 23 + 4?", "Reply in JSON: author, title and year of Moby Dick, Herman Melville, 1851.",
		}, 0},
		{data, "catalogue", 130, office, 0.3, []share{{embed, 8}, {flash, 2}}, 520, 90, 0, 0, []string{"Count the letters in: Tidewater"}, 0},
		{care, "chat widget", 170, visits, 0.8, []share{{haiku, 7}, {luna, 3}}, 1400, 190, 0.45, 0, []string{
			"Are you open on Sunday?", "Do you ship to Norway?",
		}, 0},
		{marketing, "campaigns", 26, office, 0, []share{{sol, 5}, {flash, 3}, {router, 2}}, 1900, 780, 0, 0, []string{
			"Write a headline for a summer sale of books about the sea.", "Repeat three times: read more",
		}, 0},
		{mobile, "ios app", 140, visits, 1.15, []share{{luna, 6}, {router, 4}}, 900, 140, 0.2, 0, []string{"Recommend a book like Moby Dick."}, 0},
		{mobile, "android app", 120, visits, 1.15, []share{{luna, 6}, {router, 4}}, 900, 140, 0.2, 0, []string{"What is the capital of Norway?"}, 0},
		{research, "experiments", 22, office, 0.4, []share{{haiku, 4}, {flash, 4}, {sandbox, 2}}, 2300, 520, 0, 0.2, []string{"What is 2 to the power of 16?"}, 0},
		{intern, "thesis", 9, office, 0.2, []share{{sandbox, 1}}, 700, 220, 0, 0, nil, 0},
	}
}

// The afternoon on which a provider was down, by days before the end of the history, and what it was.
const outageDays, outageProvider = 9, "anthropic"

// outage returns when the provider was down: on the last working day that is at least outageDays ago.
func outage(now time.Time) (from, until time.Time) {
	day := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -outageDays)
	for !workday(day) {
		day = day.AddDate(0, 0, -1)
	}
	from = day.Add(13*time.Hour + 41*time.Minute)
	return from, from.Add(83 * time.Minute)
}

func workday(day time.Time) bool {
	return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday
}
