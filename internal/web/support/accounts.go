package support

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// accountsAtOnce is how many accounts a page of the list has.
const accountsAtOnce = 50

// maxQuery is how much of a search that was refused is shown again, in bytes.
const maxQuery = 254

// accountsView is the data of the page with the search and the list of accounts.
type accountsView struct {
	Query   string
	Problem string
	Found   admin.List[admin.Match] // of a search
	List    admin.Accounts          // without one
	First   bool                    // it is the first page
	// Order chooses the accounts of the list and their order.
	Order admin.AccountQuery
}

// accountOrders are the orders of the list as addresses have them, each with what a menu calls it. A minus turns one round.
var accountOrders = []option{{"created", "Newest first"}, {"-created", "Oldest first"}, {"email", "E-mail, A to Z"}, {"-email", "E-mail, Z to A"}, {"plan", "Lowest plan first"}, {"-plan", "Highest plan first"}, {"requests", "Most requests first"}, {"cost", "Highest cost first"}}

// order returns the order of this page as addresses have it.
func (v *accountsView) order() string { return orderName(v.Order.By, v.Order.Reverse) }

func orderName(by string, reverse bool) string {
	if reverse {
		return "-" + by
	}
	return by
}

// path returns the address of the list in an order, with the plan and the status of this page.
func (v *accountsView) path(by string, reverse bool) string {
	q := url.Values{}
	for name, value := range map[string]string{"plan": v.Order.Plan, "status": v.Order.Status, "by": orderName(by, reverse)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return home + "/accounts?" + q.Encode()
}

// cost returns what the requests of an account have cost in the last 30 days; a dash is nothing.
func (v *accountsView) cost(id string) string {
	if sums, used := v.List.Usage[id]; used {
		return webui.Amount(sums.CostUSD)
	}
	return "–"
}

// sorted returns the order of the list by a column, as headings say it.
func (v *accountsView) sorted(by string) string {
	switch {
	case by != v.Order.By:
		return "none"
	case v.Order.Reverse == slices.Contains([]string{"created", "requests", "cost"}, by): // their first order is from the highest to the lowest
		return "ascending"
	}
	return "descending"
}

// accountsPage shows the search and the list. A search that finds one account or request leads to it.
func (c *Console) accountsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	view := accountsView{Query: strings.TrimSpace(r.FormValue("q"))}
	at := admin.Cursor{After: r.FormValue("after"), Limit: accountsAtOnce}
	view.First = at.After == ""
	if view.Query == "" {
		q := r.URL.Query()
		by, reverse := strings.CutPrefix(cmp.Or(q.Get("by"), "created"), "-")
		view.Order = admin.AccountQuery{Plan: q.Get("plan"), Status: q.Get("status"), By: by, Reverse: reverse, Cursor: at}
		var err error
		if view.List, err = run(c, r, m, c.ops.AccountBrowse, view.Order); err != nil {
			return err
		}
		return c.ui.Render(w, r, http.StatusOK, accountsPage(c.frame(w, r, m, "Accounts"), view))
	}
	status := http.StatusOK
	var err error
	view.Found, err = run(c, r, m, c.ops.AccountSearch, admin.SearchQuery{Term: view.Query, Cursor: at})
	switch found := view.Found.Data; {
	case err != nil:
		problems, code, rest := webui.Refused(err)
		if rest != nil {
			return rest
		}
		status, view.Problem = code, problems[""]
		if len(view.Query) > maxQuery {
			view.Query = "" // not echoed
		}
	case len(found) == 0 && view.First:
		status = http.StatusNotFound
	case len(found) == 1 && view.First && found[0].By == "request":
		return c.seeOther(w, r, requestPath(found[0].RequestID), "")
	case len(found) == 1 && view.First:
		return c.seeOther(w, r, accountPath(found[0].AccountID), "")
	}
	return c.ui.Render(w, r, status, accountsPage(c.frame(w, r, m, "Accounts"), view))
}

// accountPath returns the path of an account's page.
func accountPath(id string) string { return home + "/accounts/" + url.PathEscape(id) }
