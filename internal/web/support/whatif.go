package support

import (
	"net/http"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// whatIfPage says what the calls of an account, or of all, would have cost at their vendors.
func (c *Console) whatIfPage(w http.ResponseWriter, r *http.Request, m *member) error {
	view := webui.WhatIf{Action: home + "/whatif", WhatIfChoice: webui.WhatIfChoiceOf(r), Everybody: true, Key: func(id string) string { return id }}
	status := http.StatusOK
	var err error
	if view.Priced, err = run(c, r, m, c.ops.WhatIfModels, admin.Empty{}); err != nil {
		return err
	}
	if view.Asked() {
		q, problem := view.Question(time.Now())
		if view.Problem = problem; problem == "" {
			view.Report, err = run(c, r, m, c.ops.WhatIfReport, admin.WhatIfOrder{Question: q, Account: view.Account})
		}
		if f := fault.From(err); err != nil && (f.Kind == fault.Invalid || f.Kind == fault.NotFound) {
			view.Problem, err = f.Message, nil
		}
		if err != nil {
			return err
		}
		if view.Problem != "" {
			status = http.StatusBadRequest
		}
	}
	p := c.frame(w, r, m, "What if")
	p.Styles = append(p.Styles, "activity.css")
	return c.ui.Render(w, r, status, whatIfPage(p, &view))
}
