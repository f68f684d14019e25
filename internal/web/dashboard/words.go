package dashboard

import (
	"cmp"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// refusedNote returns the note below the number of requests.
func refusedNote(r *activity.Report) string {
	if r.Refused == 0 {
		return "none refused"
	}
	return "plus " + webui.Number(r.Refused) + " refused"
}

// stepTexts say what the steps of the chart are.
var stepTexts = map[time.Duration]string{
	time.Minute: "By minute", 10 * time.Minute: "By 10 minutes", time.Hour: "By hour", 6 * time.Hour: "By 6 hours", 24 * time.Hour: "By day, in UTC",
}

// rowName returns the name of a row of the tables by model and by key.
func rowName(v *activityView, filter string, r *activity.Row) string {
	if filter == "key" {
		return v.Names.Of(r.Name)
	}
	return r.Name
}

// failureTone returns the colour of what went wrong.
func failureTone(v *requestView) string {
	switch {
	case v.Refused != nil:
		return "warn"
	case v.Kind == "":
		return ""
	}
	return "bad"
}

// whyModel says why a model answered, or "" if the request simply named it.
func whyModel(s *usage.Settlement) string {
	switch {
	case s.Trace != nil && s.Trace.Reason != "" && s.ModelAsked != s.ModelUsed:
		return s.Trace.Reason
	case s.ModelAsked != s.ModelUsed:
		return "it replaced the requested model, or the name is an alias for it"
	}
	return ""
}

// toldID returns the id that the caller of a request was told.
func toldID(s *usage.Settlement) string {
	if s.Trace != nil && s.Trace.RequestID != "" {
		return s.Trace.RequestID
	}
	return s.ID
}

// doors are the APIs that a request can come in by, and what an example of a request to each needs beside the model.
var doors = []struct{ door, name, path, body string }{
	{usage.DoorChat, "Chat completions", "/v1/chat/completions", `"messages": [{"role": "user", "content": "Hello!"}]`},
	{usage.DoorResponses, "Responses", "/v1/responses", `"input": "Hello!"`},
	{usage.DoorMessages, "Messages", "/v1/messages", `"max_tokens": 1024, "messages": [{"role": "user", "content": "Hello!"}]`},
	{usage.DoorEmbeddings, "Embeddings", "/v1/embeddings", `"input": "Hello!"`},
	{usage.DoorVideos, "Videos", "/v1/video/generations/jobs", `"prompt": "A lighthouse at dusk"`},
}

// doorName returns the name of the API that a request came in by.
func doorName(door string) string {
	for _, d := range doors {
		if d.door == door {
			return d.name
		}
	}
	return doors[0].name
}

// attemptTone returns the colour of an attempt.
func attemptTone(a *usage.Attempt) string {
	if a.Outcome == usage.Answered {
		return "good"
	}
	return "bad"
}

// failureText says what went wrong with a request, in a sentence.
func failureText(e *activity.Entry) string {
	_, text := e.Failure()
	return text
}

// dash returns a text, or a dash if it is empty.
func dash(text string) string { return cmp.Or(text, "–") }

// stepsDone returns how many steps of the checklist are done. The first always is: there is an account.
func stepsDone(s startView) int {
	n := 1
	if s.Key || s.Done {
		n++
	}
	if s.Done {
		n++
	}
	return n
}

// waiting returns the attributes that make the checklist ask again, while there is something to wait for.
func waiting(s startView) templ.Attributes {
	if s.Done {
		return nil
	}
	return templ.Attributes{"hx-get": home + "/start", "hx-trigger": "every 4s", "hx-swap": "outerHTML"}
}

// units formats thousandths of units. Below a hundred the parts of one matter.
func units(milli int64) string {
	if milli < 100_000 {
		return webui.Thousandths(milli)
	}
	return webui.Number(milli / 1000)
}

// told says what the page shows, for those who hear that it has changed.
func told(v *activityView) string {
	text := requests(v.Total.Calls)
	if v.Refused > 0 {
		text += " and " + webui.Number(v.Refused) + " refused"
	}
	return text + ", " + rangeText(&v.choice) + "."
}

// fieldTime formats a time for a field of a browser.
func fieldTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(expiresForm)
}

// charged returns the list price of calls among others, or a dash if none of them has one, which is not the same as $0.
func charged(t *usage.Tally) string {
	if t.Unpriced > 0 && t.Charge() == 0 {
		return "–"
	}
	return webui.Total(t.Charge())
}

// hitText says what part of the prompts came from caches.
func hitText(h usage.Hits) string {
	if h.Cacheable == 0 {
		return "no model with a cache was called"
	}
	return webui.HitRate(h) + " of input tokens came from them"
}
