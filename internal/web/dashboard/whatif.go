package dashboard

import (
	"net/http"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// whatIfPage says what the account's calls would have cost. Customers see amounts with the operator's markup.
func (d *Dashboard) whatIfPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := webui.WhatIf{Action: home + "/activity/whatif", WhatIfChoice: webui.WhatIfChoiceOf(r)}
	view.Account = ""
	now := time.Now()
	for _, m := range d.Catalog().Models() {
		if !m.Vanished && v.includes(m) && m.Priced(now) != nil {
			view.Priced = append(view.Priced, m.ID)
		}
	}
	status := http.StatusOK
	if !view.Asked() {
		// An example, unless an export runs or a replay: then there is only the form.
		asked := view.WhatIfChoice
		view.WhatIfChoice, view.Example = webui.FirstExample(), true
		err := d.replay(r, v, &view, now)
		if err != nil || view.Report.Total.Calls == 0 {
			view.WhatIfChoice, view.Example, view.Report = asked, false, nil
		}
		if err != nil && fault.From(err).Kind != fault.RateLimited {
			return err
		}
	} else {
		err := d.replay(r, v, &view, now)
		if f := fault.From(err); err != nil && f.Kind == fault.Invalid {
			view.Problem = f.Message
		} else if err != nil {
			return err
		}
		if view.Problem != "" {
			status = http.StatusBadRequest
		}
	}
	p := d.frame(w, r, v, "What if")
	p.Styles = []string{"activity.css"}
	return d.ui.Render(w, r, status, whatIfPage(p, &view))
}

// replay answers what the visitor asked. It reads many calls, so it is made one at a time, as an export is.
func (d *Dashboard) replay(r *http.Request, v *visitor, view *webui.WhatIf, now time.Time) error {
	q, problem := view.Question(now)
	if problem != "" {
		return fault.New(fault.Invalid, "%s", problem)
	}
	if view.To != "" {
		if m, ok := d.Catalog().Lookup(view.To); !ok || !v.includes(m) {
			return fault.New(fault.Invalid, "There is no model %q that you may call.", view.To)
		}
	}
	leave, err := d.Reads.Export(v.ID)
	if err != nil {
		return err
	}
	defer leave()
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view.Key = names.Of
	q.AccountID, q.Told = v.ID, true
	view.Report, err = d.WhatIf.Run(r.Context(), q)
	return err
}
