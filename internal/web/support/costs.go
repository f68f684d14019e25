package support

import (
	"net/http"

	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// costsPath returns the page that takes the costs of an account apart.
func costsPath(account string) string { return accountPath(account) + "/costs" }

// costsPage shows what the costs of an account consist of.
func (c *Console) costsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	a, err := run(c, r, m, c.ops.AccountShow, admin.Target{Ref: r.PathValue("id")})
	if err != nil {
		return err
	}
	q := r.URL.Query()
	e, err := run(c, r, m, c.ops.UsageCosts, admin.ExplainQuery{
		Ref: a.ID, From: q.Get("from"), To: q.Get("to"), Day: q.Get("day"), Month: q.Get("month"), Key: q.Get("key"), Model: q.Get("model"), Served: q.Get("served"), Outcome: q.Get("outcome"),
		Cursor: admin.Cursor{After: q.Get("cursor"), Limit: webui.CostPage},
	})
	if err != nil {
		return err
	}
	view := &webui.Costs{
		Reply: e.Reply(true), From: e.From, To: e.To, Path: costsPath(a.ID), Query: q, Request: home + "/requests?id=", KeyName: func(id string) string { return id }, Staff: true,
	}
	return c.ui.Render(w, r, http.StatusOK, costsPage(c.frame(w, r, m, "Costs of "+a.Email), a, view))
}
