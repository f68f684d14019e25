package support

import (
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/admin"
	"sluice/internal/fault"
	"sluice/internal/webui"
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
	First   bool // it is the first page of the list
}

// accountsPage shows the search and the list. A search that finds one account leads to it.
func (c *Console) accountsPage(w http.ResponseWriter, r *http.Request, m *member) error {
	query := strings.TrimSpace(r.FormValue("q"))
	status, view := http.StatusOK, accountsView{Query: query}
	if len(query) > maxQuery {
		return fault.New(fault.Invalid, "Search for at most %d characters.", maxQuery)
	}
	if query != "" {
		var found admin.Account
		err := c.Admin.Call(r.Context(), m.caller(), "account.show", admin.Target{Ref: query}, &found)
		if err == nil {
			return c.seeOther(w, r, accountPath(found.ID), "")
		}
		problems, code, rest := webui.Refused(err)
		if rest != nil {
			return rest
		}
		status, view.Problem = code, problems[""]
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
