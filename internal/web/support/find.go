package support

import (
	"cmp"
	"net/http"

	"github.com/a-h/templ"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// findPath is the search over everything that staff sees.
const findPath = home + "/find"

// shortestTerm is how much of an address, an id or a subject is typed before anything is searched by it.
const shortestTerm = 3

// find searches pages, accounts, requests, tickets and the documentation.
func (c *Console) find(w http.ResponseWriter, r *http.Request, m *member) error {
	query := webui.FindQuery(r)
	all := []webui.Findings{webui.FindPages(query, c.links())}
	if len(query) >= shortestTerm {
		accounts, requests, err := c.findAccounts(r, m, query)
		if err != nil {
			return err
		}
		tickets, err := c.findTickets(r, m, query)
		if err != nil {
			return err
		}
		all = append(all, accounts, requests, tickets, c.Docs(query))
	}
	return c.ui.RenderFound(w, r, all, func(content templ.Component) (templ.Component, error) {
		return webui.InFrame(c.frame(w, r, m, "Search"), content), nil
	})
}

// findAccounts returns the accounts that a term finds, and the requests that it is the id of.
func (c *Console) findAccounts(r *http.Request, m *member, term string) (accounts, requests webui.Findings, err error) {
	accounts.Title, requests.Title = "Accounts", "Requests"
	found, err := run(c, r, m, c.ops.AccountSearch, admin.SearchQuery{Term: term, Cursor: admin.Cursor{Limit: webui.FoundAtOnce}})
	if fault.Is(err, fault.Invalid) { // it can name no account
		return accounts, requests, nil
	}
	for i := range found.Data {
		x := &found.Data[i]
		if x.RequestID != "" {
			requests.List = append(requests.List, webui.Finding{Path: requestPath(x.RequestID), Text: x.RequestID, Note: x.Email, Icon: "requests"})
			continue
		}
		note := plan(x.Plan)
		if x.Key != nil {
			note = "key " + cmp.Or(x.Key.Name, x.Key.ID)
		}
		accounts.List = append(accounts.List, webui.Finding{Path: accountPath(x.AccountID), Text: x.Email, Note: note, Icon: "account"})
	}
	return accounts.Best(term), requests.Best(term), err
}

// findTickets returns the tickets with an id, or the latest open ones with the words of a query.
func (c *Console) findTickets(r *http.Request, m *member, query string) (webui.Findings, error) {
	found := webui.Findings{Title: "Tickets"}
	add := func(t *ticket.Ticket) {
		found.List = append(found.List, webui.Finding{Path: ticketPath(t.ID), Text: cmp.Or(staffTitle(t), kindName(t.Kind)), Note: t.Email, Icon: "messages"})
	}
	one, err := run(c, r, m, c.ops.TicketShow, admin.TicketRef{ID: query})
	if err == nil {
		add(&one.Ticket)
		return found, nil
	}
	if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return found, err
	}
	for _, view := range []ticket.View{ticket.Waiting, ticket.Answered, ticket.Sleeping} {
		list, err := run(c, r, m, c.ops.TicketList, admin.TicketQuery{View: string(view), Cursor: admin.Cursor{Limit: ticketsAtOnce}})
		if err != nil {
			return found, err
		}
		for i := range list.Data {
			if t := &list.Data[i]; webui.Matches(query, staffTitle(t), t.Subject, t.Email, t.ID, kindName(t.Kind)) {
				add(t)
			}
		}
	}
	return found.Best(query), nil
}
