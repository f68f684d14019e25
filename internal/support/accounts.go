package support

import (
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/admin"
	"sluice/internal/fault"
)

// accountsAtOnce is how many accounts a page of the list has.
const accountsAtOnce = 50

// maxQuery is how long a search may be, in bytes.
const maxQuery = 254

// accountsView is the data of the page with the search and the list of accounts.
type accountsView struct {
	Query   string
	Problem string
	List    admin.List[admin.Account]
	First   bool                    // it is the first page of the list
	Found   admin.List[admin.Match] // what a search has found
}

// accountsPage shows the search and the list. A search that finds one account or request leads to it.
func (c *Console) accountsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	query := strings.TrimSpace(r.FormValue("q"))
	status, view := http.StatusOK, accountsView{Query: query}
	if len(query) > maxQuery {
		return fault.New(fault.Invalid, "Search for at most %d characters.", maxQuery)
	}
	if query != "" {
		in := admin.SearchQuery{Term: query, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: accountsAtOnce}}
		var err error
		status, view.Problem, err = c.find(r, m, "account.search", in, &view.Found)
		switch found := view.Found.Data; {
		case err != nil:
			return err
		case view.Problem != "":
		case len(found) == 0:
			status, view.Problem = http.StatusNotFound, "Nothing found."
		case len(found) == 1 && found[0].RequestID != "":
			return c.seeOther(w, r, requestPath(found[0].RequestID), "")
		case len(found) == 1 && in.After == "":
			return c.seeOther(w, r, accountPath(found[0].AccountID), "")
		}
		return c.ui.Render(w, r, status, accountsPage(c.frame(w, r, m, "Accounts"), view))
	}
	in := admin.Cursor{After: r.FormValue("after"), Limit: accountsAtOnce}
	view.First = in.After == ""
	if err := c.Admin.Call(r.Context(), m.caller(), "account.list", in, &view.List); err != nil {
		return err
	}
	return c.ui.Render(w, r, status, accountsPage(c.frame(w, r, m, "Accounts"), view))
}

// accountPath returns the path of an account's page.
func accountPath(id string) string { return home + "/accounts/" + url.PathEscape(id) }

// accountView is the data of an account's page.
type accountView struct {
	Account admin.Account
	History admin.List[admin.Entry]
}

// accountPage shows an account.
func (c *Console) accountPage(w http.ResponseWriter, r *http.Request, m *member) error {
	var view accountView
	ctx, id := r.Context(), r.PathValue("id")
	if err := c.Admin.Call(ctx, m.caller(), "account.show", admin.Target{Ref: id}, &view.Account); err != nil {
		return err
	}
	if err := c.Admin.Call(ctx, m.caller(), "account.history", admin.AccountPage{Ref: view.Account.ID, Cursor: admin.Cursor{Limit: 50}}, &view.History); err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, accountPage(c.frame(w, r, m, view.Account.Email), view))
}
