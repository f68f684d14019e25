package support

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// tokensView is the data of the page with the member's tokens.
type tokensView struct {
	Tokens []admin.Token
	// New is the text of the token that this request created, or "". It is shown only in this reply.
	New     string
	NewName string
	// Name, Days and Chosen are as they were typed, if the form is shown again.
	Name     string
	Days     string
	Making   bool // its dialog is open
	Chosen   []string
	Problems webui.Problems
	Now      time.Time
}

// tokensPage shows the page.
func (c *Console) tokensPage(w http.ResponseWriter, r *http.Request, m *member) error {
	return c.showTokens(w, r, m, http.StatusOK, tokensView{Days: "90", Making: r.URL.Query().Get("new") != ""})
}

// showTokens renders the page. The caller sets the form, or the token that was just made.
func (c *Console) showTokens(w http.ResponseWriter, r *http.Request, m *member, status int, view tokensView) error {
	list, err := run(c, r, m, c.ops.TokenList, admin.AccountPage{})
	if err != nil {
		return err
	}
	view.Tokens, view.Now = list.Data, time.Now()
	return c.ui.Render(w, r, status, tokensPage(c.frame(w, r, m, "Tokens"), view))
}

// createToken makes a token and shows it in the reply. There is no redirect: the text is not stored anywhere, so a second
// request could not show it.
func (c *Console) createToken(w http.ResponseWriter, r *http.Request, m *member) error {
	view := tokensView{Making: true, Name: r.FormValue("name"), Days: r.FormValue("days"), Chosen: r.Form["scope"]}
	in := admin.NewToken{Name: view.Name}
	for _, s := range view.Chosen {
		in.Scopes = append(in.Scopes, admin.Scope(s))
	}
	var out admin.CreatedToken
	days, err := strconv.Atoi(view.Days)
	if err != nil {
		err = fault.New(fault.Invalid, "enter a number of days").At("days")
	} else {
		in.Days = days
		out, err = run(c, r, m, c.ops.TokenCreate, in)
	}
	if err != nil {
		var status int
		if view.Problems, status, err = webui.Refused(err, "name", "days", "scopes"); err != nil {
			return err
		}
		return c.showTokens(w, r, m, status, view)
	}
	return c.showTokens(w, r, m, http.StatusOK, tokensView{Days: "90", New: out.Text, NewName: out.Name})
}

// deleteToken revokes a token.
func (c *Console) deleteToken(w http.ResponseWriter, r *http.Request, m *member) error {
	if _, err := run(c, r, m, c.ops.TokenDelete, admin.Target{Ref: r.PathValue("id")}); err != nil {
		return err
	}
	return c.seeOther(w, r, home+"/tokens", "token-deleted")
}

// chosen reports whether a scope was ticked.
func (v *tokensView) chosen(s admin.Scope) bool { return slices.Contains(v.Chosen, string(s)) }
