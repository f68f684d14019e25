package activity

import (
	"encoding/json"
	"time"
)

// Record is a request as the API and the exports have it. Its names are part of their formats.
type Record struct {
	Object    string `json:"object"`
	ID        string `json:"id"`
	CreatedAt int64  `json:"created_at"`
	At        string `json:"at"` // the same with milliseconds
	Status    int    `json:"status"`
	// Outcome is how the call ended (complete, hang_up, cut, failed), or refused.
	Outcome          string   `json:"outcome"`
	Error            *Problem `json:"error"`
	ModelAsked       string   `json:"model_asked"`
	Model            string   `json:"model"` // empty: none answered
	KeyID            string   `json:"key_id"`
	KeyName          string   `json:"key_name"`
	API              string   `json:"api"`
	Session          string   `json:"session,omitempty"` // the caller's name of the run that it belongs to
	PromptTokens     int      `json:"prompt_tokens"`
	CachedTokens     int      `json:"cached_tokens"`
	CacheWriteTokens int      `json:"cache_write_tokens"`
	CompletionTokens int      `json:"completion_tokens"`
	ReasoningTokens  int      `json:"reasoning_tokens"`
	Units            float64  `json:"units"`
	// ListPriceUSD is what the caller is told that the call costs, exact to the nano-dollar; null: the price is not known.
	ListPriceUSD *json.Number `json:"list_price_usd"`
	FirstTokenMS *int64       `json:"first_token_ms"` // null: there was none
	LatencyMS    *int64       `json:"latency_ms"`     // null: it was refused
	Tags         []string     `json:"tags,omitempty"`
	// CacheSavedUSD is what the caller is told that the call would have cost without caches, beyond its cost; null: the price is not
	// known.
	CacheSavedUSD *json.Number `json:"cache_saved_usd"`
}

// Problem is what went wrong with a request.
type Problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
}

// Record returns the entry as a record.
func (e *Entry) Record(names Names) Record {
	at := e.At().UTC()
	out := Record{Object: "request", ID: e.ID(), CreatedAt: at.Unix(), At: at.Format("2006-01-02T15:04:05.000Z")}
	if kind, text := e.Failure(); kind != "" {
		out.Error = &Problem{Type: kind, Message: text}
	}
	if c := e.Refused; c != nil {
		out.Status, out.Outcome, out.Error.Param = c.Status, string(Refused), c.Param
		out.ModelAsked, out.KeyID, out.KeyName, out.API = c.Model, c.KeyID, names.Of(c.KeyID), c.Path
		return out
	}
	s := e.Call
	out.Status, out.Outcome, out.ModelAsked, out.Model = s.Status, string(s.End), s.ModelAsked, s.ModelUsed
	out.KeyID, out.KeyName, out.API = s.KeyID, names.Of(s.KeyID), s.Entrance()
	out.PromptTokens, out.CachedTokens, out.CompletionTokens, out.ReasoningTokens = s.Tokens.PromptTotal(), s.Tokens.Cached, s.Tokens.CompletionTotal(), s.Tokens.Reasoning
	out.CacheWriteTokens = s.Tokens.CacheWritten()
	out.Units, out.LatencyMS = float64(s.UnitMilli)/1000, millis(s.Latency)
	out.Session, out.Tags = s.Session(), s.Terms.Tags
	if s.HasFirst() {
		out.FirstTokenMS = millis(s.FirstToken)
	}
	if charge := s.Charge(); charge != nil {
		dollars := json.Number(charge.AppendJSON(nil))
		saved := json.Number(s.SavedCharge().AppendJSON(nil))
		out.ListPriceUSD, out.CacheSavedUSD = &dollars, &saved
	}
	return out
}

func millis(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
