package config

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/ledger/price"
)

// TestPrices: the example of the reference means the entry that the same text means as a file of prices.
func TestPrices(t *testing.T) {
	t.Parallel()
	c, wrong := loadText(t, `prices:
- model: lab/basic
  from: 2026-01-01
  until: 2027-01-01
  input: 3
  cache_read: 0.3
  cache_write_5m: 3.75
  cache_write_1h: 6
  cache_write: 3.000000001
  output: 15
  reasoning: 16
  audio_input: 7
  audio_output: 8
  image_input: 9
  image_output: 10
  above: [{tokens: 200000, input: 6, output: 22.5}]
  tiers: {priority: 2, batch: 0.5}
  regions: {us: 1.1}
  hours: [{days: mon-fri, from: "09:00", to: "12:00", zone: "+08:00", times: 2}]
  calls: {web_search: 0.01}
  seconds: {720p: 0.4}
`)
	if wrong != "" {
		t.Fatal(wrong)
	}
	e, _ := c.Prices[0].Entry()
	got, err := price.Sealed(e)
	if err != nil {
		t.Fatal(err)
	}
	list, err := price.Read(strings.NewReader(`{"prices":[{"model":"lab/basic","from":"2026-01-01","until":"2027-01-01","input":3,"cache_read":0.3,
		"cache_write_5m":3.75,"cache_write_1h":6,"cache_write":3.000000001,"output":15,"reasoning":16,"audio_input":7,"audio_output":8,"image_input":9,"image_output":10,
		"above":[{"tokens":200000,"input":6,"output":22.5}],"tiers":{"priority":2,"batch":0.5},"regions":{"us":1.1},
		"hours":[{"days":"mon-fri","from":"09:00","to":"12:00","zone":"+08:00","times":2}],"calls":{"web_search":0.01},"seconds":{"720p":0.4}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Version() != list[0].Version() {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(list[0])
		t.Errorf("the entry of the configuration is %s, that of the file %s", a, b)
	}
	if !strings.Contains(c.Redacted(), "cache_write: 3.000000001\n") || !strings.Contains(c.Redacted(), `"priority": 2`) {
		t.Errorf("Redacted leaves prices out:\n%s", c.Redacted())
	}
}

func TestMarkup(t *testing.T) {
	t.Parallel()
	c, wrong := loadText(t, "markup: {all: 1.2, plans: {premium: 1.1}, accounts: {acct_a: 1}}\n")
	if wrong != "" {
		t.Fatal(wrong)
	}
	m := c.Markup.Price()
	for _, tt := range []struct {
		plan, account string
		want          price.Factor
	}{{"free", "acct_b", 1_200_000}, {"premium", "acct_b", 1_100_000}, {"premium", "acct_a", 1_000_000}} {
		if got := m.Of(tt.plan, tt.account); got != tt.want {
			t.Errorf("the markup of %s on %s is %s, want %s", tt.account, tt.plan, got, tt.want)
		}
	}
	c, wrong = loadText(t, "", "SLUICE_MARKUP_ALL=1.5", "SLUICE_MARKUP_PLANS=free=2,basic=1.75")
	if wrong != "" || c.Markup.Price().Of("basic", "") != 1_750_000 || c.Markup.Price().All() != 1_500_000 {
		t.Errorf("the markup of variables is %+v, %s", c.Markup, wrong)
	}
	if c, wrong = loadText(t, ""); wrong != "" || c.Markup.Price() != nil {
		t.Errorf("a configuration without a markup has %+v, %s", c.Markup, wrong)
	}
}
