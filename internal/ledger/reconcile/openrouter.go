package reconcile

import (
	"encoding/json"
	"fmt"
)

// openrouterPages is a reply of /api/v1/activity.
type openrouterPages struct {
	Data []json.RawMessage `json:"data"`
}

// openrouterActivity is one model at one endpoint on one day. Usage is dollars; completions include reasoning.
type openrouterActivity struct {
	Date       string      `json:"date"`
	Model      string      `json:"model"`
	Usage      json.Number `json:"usage"`
	Prompt     int64       `json:"prompt_tokens"`
	Completion int64       `json:"completion_tokens"`
}

func (r *Reader) openrouterPage(name string, raw []byte) error {
	var page openrouterPages
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	if len(r.keys) > 0 {
		return errNoKeys
	}
	p := openrouterPart(r, name, nil)
	for i, raw := range page.Data {
		var a openrouterActivity
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
		again, err := r.repeated("openrouter", string(raw))
		if err == nil {
			err = p.openrouterOne(&a, i+1, again)
		}
		if err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return nil
}

// openrouterOne adds the tokens of a row, and its amount, which is not divided.
func (p *part) openrouterOne(a *openrouterActivity, row int, again bool) error {
	day, err := dayOf(a.Date)
	if err != nil {
		return err
	}
	cost, digits, err := amount(string(a.Usage), 0)
	if err != nil {
		return err
	}
	if a.Prompt < 0 || a.Prompt > maxCount || a.Completion < 0 || a.Completion > maxCount {
		return fmt.Errorf("%d and %d tokens", a.Prompt, a.Completion)
	}
	l := Line{Day: day, Model: a.Model, Row: row}
	for _, one := range []Line{
		{Bucket: "input", Count: a.Prompt, Counted: 1}, {Bucket: "output", Count: a.Completion, Counted: 1}, {Cost: Money(cost), Charged: 1},
	} {
		l.Bucket, l.Count, l.Counted, l.Cost, l.Charged = one.Bucket, one.Count, one.Counted, one.Cost, one.Charged
		if err := p.add(item{Line: l, digits: digits, again: again}); err != nil {
			return err
		}
	}
	return nil
}

// openrouterSheet is what the activity page exports: by day, or one row for each generation.
var openrouterSheet = sheet{
	what: "activity", need: []string{"date|created_at", "slug|model|model_permaslug", "usage|cost_total", "prompt_tokens|tokens_prompt"},
	open: openrouterPart,
	row: func(r *Reader, p *part, row *record) (err error) {
		a := openrouterActivity{Date: row.text("date", "created_at"), Model: row.text("slug", "model", "model_permaslug"), Usage: json.Number(row.text("usage", "cost_total"))}
		if a.Prompt, err = row.count("prompt_tokens", "tokens_prompt"); err != nil {
			return err
		}
		if a.Completion, err = row.count("completion_tokens", "tokens_completion"); err != nil {
			return err
		}
		again, err := r.repeated(row.fields...)
		if err != nil || !r.wants(p, row.text("api_key_name", "app_name")) {
			return err
		}
		return p.openrouterOne(&a, row.line, again)
	},
}

func openrouterPart(r *Reader, name string, _ map[string]int) *part {
	p := r.part(name, false, false)
	p.knows("input", "output")
	return p
}
