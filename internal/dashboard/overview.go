package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/catalog"
	"sluice/internal/usage"
	"sluice/internal/webui"
)

// window is how far back usage is shown (spec: Other constants).
const window = 30

// overviewView is what the first page shows.
type overviewView struct {
	Plan     account.Plan
	Granted  bool
	Minute   minuteView
	Score    int
	Tiers    []abuse.Standing
	Total    usage.Sums
	Days     []usage.Row // one for each day of the window
	Snippets []snippet
	HasUsage bool
}

// minuteView is what is left in this minute.
type minuteView struct {
	Limits   account.Limits
	Requests admission.Meter
	Tokens   admission.Meter
}

func (d *Dashboard) minuteView(v *visitor) minuteView {
	limits := d.Plans()[v.Plan].Over(v.Overrides)
	s := d.Ledger.Peek(v.ID, limits)
	return minuteView{Limits: limits, Requests: s.Requests, Tokens: s.Tokens}
}

func (d *Dashboard) overviewPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	from := firstDay(d.now())
	rows, err := d.Usage.UsageBy(r.Context(), usage.Query{AccountID: v.ID, From: from, By: usage.ByDay})
	if err != nil {
		return err
	}
	view := overviewView{Plan: v.Plan, Granted: v.Granted, Minute: d.minuteView(v), Days: everyDay(rows, from)}
	view.Tiers, view.Score = d.Abuse.Standings(v.ID, v.Plan)
	for i := range rows {
		view.Total.Merge(rows[i].Sums)
	}
	view.HasUsage = view.Total.Requests > 0
	view.Snippets = snippets(d.ui.Settings().Origin, exampleModel(d.Catalog(), v))
	return d.ui.Render(w, r, http.StatusOK, overviewPage(d.frame(w, r, v, "Overview"), view))
}

// minute is the part of the overview that renews itself.
func (d *Dashboard) minute(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.ui.Render(w, r, http.StatusOK, minutePart(d.minuteView(v)))
}

// firstDay is the first of the window's days.
func firstDay(now time.Time) time.Time { return usage.DayOf(now).AddDate(0, 0, 1-window) }

// everyDay puts the days without usage between the others.
func everyDay(rows []usage.Row, from time.Time) []usage.Row {
	out := make([]usage.Row, window)
	for i := range out {
		out[i].Start = from.AddDate(0, 0, i)
	}
	for _, row := range rows {
		if i := int(row.Start.Sub(from) / (24 * time.Hour)); i >= 0 && i < window {
			out[i] = row
		}
	}
	return out
}

// bar is one day of the picture of a month.
type bar struct {
	x, y, width, height string
	none                bool
	title               string
}

// bars draws requests by day into a picture of 300 by 100.
func bars(days []usage.Row) []bar {
	most := int64(1)
	for i := range days {
		most = max(most, days[i].Requests)
	}
	out := make([]bar, len(days))
	step := 300.0 / float64(len(days))
	for i := range days {
		n := days[i].Requests
		height := 2.0
		if n > 0 {
			height = max(3, 100*float64(n)/float64(most))
		}
		out[i] = bar{
			x: fmt.Sprintf("%.2f", float64(i)*step+step*0.15), y: fmt.Sprintf("%.2f", 100-height),
			width: fmt.Sprintf("%.2f", step*0.7), height: fmt.Sprintf("%.2f", height), none: n == 0,
			title: days[i].Start.Format("2 Jan") + ": " + requests(n),
		}
	}
	return out
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return webui.Number(n) + " requests"
}

// exampleModel is what the quick start calls: the router where the plan includes it, else the first model
// that it does include.
func exampleModel(c *catalog.Catalog, v *visitor) string {
	first := ""
	for _, m := range c.Models() {
		if !v.includes(m) {
			continue
		}
		if m.Router {
			return m.ID
		}
		if first == "" {
			first = m.ID
		}
	}
	return first
}

// snippet is the quick start in one language.
type snippet struct{ ID, Name, Text string }

// snippets are ready to run once the key is in the environment.
func snippets(origin, model string) []snippet {
	fill := strings.NewReplacer("{origin}", origin, "{model}", model)
	list := []snippet{
		{"curl", "curl", `curl {origin}/v1/chat/completions \
  -H "Authorization: Bearer $SLUICE_API_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "{model}",
    "messages": [{"role": "user", "content": "Hello!"}]
  }'`},
		{"python", "Python", `# pip install openai
import os
from openai import OpenAI

client = OpenAI(base_url="{origin}/v1", api_key=os.environ["SLUICE_API_KEY"])
reply = client.chat.completions.create(
    model="{model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(reply.choices[0].message.content)`},
		{"node", "Node", `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{origin}/v1", apiKey: process.env.SLUICE_API_KEY });
const reply = await client.chat.completions.create({
  model: "{model}",
  messages: [{ role: "user", content: "Hello!" }],
});
console.log(reply.choices[0].message.content);`},
		{"go", "Go", `// go get github.com/openai/openai-go/v3
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient(option.WithBaseURL("{origin}/v1"), option.WithAPIKey(os.Getenv("SLUICE_API_KEY")))
	reply, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:    "{model}",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello!")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.Choices[0].Message.Content)
}`},
	}
	for i := range list {
		list[i].Text = fill.Replace(list[i].Text)
	}
	return list
}

// limitText writes a limit.
func limitText(l account.Limit) string {
	if l == account.Unlimited {
		return "unlimited"
	}
	return webui.Number(int64(l))
}

// shortLimit writes a limit of tokens.
func shortLimit(l account.Limit) string {
	if l == account.Unlimited {
		return "unlimited"
	}
	return webui.Short(int64(l))
}

// planName is a plan as pages write it.
func planName(p account.Plan) string {
	if p == account.None {
		return "No plan"
	}
	name := p.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

// scoreTone is how a score looks.
func scoreTone(score int) string {
	switch {
	case score >= 90:
		return "bad"
	case score >= 50:
		return "warn"
	}
	return "good"
}

// forecast says when the highest tier reaches 100.
func forecast(tiers []abuse.Standing) string {
	var soonest *abuse.Standing
	for i := range tiers {
		if t := &tiers[i]; !t.Reaches.IsZero() && (soonest == nil || t.Reaches.Before(soonest.Reaches)) {
			soonest = t
		}
	}
	if soonest == nil {
		return "At the pace of the last 24 hours it stays below 100 this month."
	}
	return "At the pace of the last 24 hours it reaches 100 on " + soonest.Reaches.UTC().Format("2 January") + " with " + soonest.Tier.String() + "-tier models."
}
