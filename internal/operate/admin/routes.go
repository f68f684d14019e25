package admin

import (
	"context"
	"reflect"
)

// Scope is a part of the operations that a staff token may be limited to.
type Scope string

const (
	// Local is not a scope of tokens: the operation is for the admin socket alone, because it acts on the server's
	// machine, takes long, or makes members of staff.
	Local Scope = "local"

	AccountsRead    Scope = "accounts:read"
	AccountsWrite   Scope = "accounts:write"
	KeysWrite       Scope = "keys:write"
	SignInWrite     Scope = "signin:write"
	BillingRead     Scope = "billing:read"
	BillingWrite    Scope = "billing:write"
	MattersRead     Scope = "matters:read"
	MattersWrite    Scope = "matters:write"
	OperationsRead  Scope = "operations:read"
	OperationsWrite Scope = "operations:write"
	// TokensWrite is for the console: no token may make tokens.
	TokensWrite Scope = "tokens:write"
)

// ScopeText is a scope and what it lets a token do, for people who make one.
type ScopeText struct {
	Scope Scope
	Text  string
}

// Scopes returns the scopes that a token can have, in the order that they are shown in.
func Scopes() []ScopeText {
	return []ScopeText{
		{AccountsRead, "read accounts, their limits, usage, scores and history"},
		{AccountsWrite, "create and change accounts: plans, limits, suspensions, notes"},
		{KeysWrite, "make, rename, limit, delete, deactivate and restore keys of customers"},
		{SignInWrite, "make sign-in links for customers, reset their second factor, sign them out"},
		{BillingRead, "read subscriptions, payments and ledgers"},
		{BillingWrite, "downgrade, credit, refund and release payments"},
		{MattersRead, "read the queue and the threads with customers"},
		{MattersWrite, "answer customers, assign, snooze, close and decide matters; a decision can restore or suspend the account"},
		{OperationsRead, "read the state of the server, its models and upstreams"},
		{OperationsWrite, "drain upstreams, move and close models, announce, look for models, reload the configuration"},
	}
}

// Base is the path of the admin API.
const Base = "/admin/v1"

// Route is one operation and the ways to it. On the admin socket every operation is POST /{name}.
type Route struct {
	Name string
	// Method and Path are those of the admin API, the path below Base. Fields of the argument that are in the path
	// are taken from there, others from the query of a GET and the body of any other method. An empty path means
	// that the operation is not part of the API; if it has a scope, the console may call it.
	Method, Path string
	Scope        Scope
	Summary      string

	in, out reflect.Type
	run     operation
}

// row returns a Route of a function of a context and an argument, which returns a result and an error. One of another
// form panics at the start of every program and test.
func row(name, method, path string, scope Scope, summary string, run any) Route {
	f := reflect.ValueOf(run)
	if t := f.Type(); t.NumIn() != 2 || t.In(0) != reflect.TypeFor[context.Context]() || t.NumOut() != 2 || t.Out(1) != reflect.TypeFor[error]() {
		panic(name + " is not a function of a context and an argument")
	}
	return Route{name, method, path, scope, summary, f.Type().In(1), f.Type().Out(0), op(f)}
}

// local returns a Route of a function that only the socket serves.
func local(name string, run any) Route {
	return row(name, "", "", Local, "", run)
}

// routes returns all operations. It is the one list of them: the socket, the admin API, its description, its client and
// the console are made from it.
func (b *Backend) routes() []Route {
	return []Route{
		row("account.list", "GET", "/accounts", AccountsRead, "List accounts in order of their ids", b.accountList),
		row("account.create", "POST", "/accounts", AccountsWrite, "Create an account; the reply has its master key, which is shown only once", b.accountCreate),
		row("account.show", "GET", "/accounts/{ref}", AccountsRead, "Show an account with its limits and keys", b.accountShow),
		row("account.history", "GET", "/accounts/{ref}/history", AccountsRead, "List who changed an account, when and why, newest first", b.accountHistory),
		row("account.abuse", "GET", "/accounts/{ref}/abuse", AccountsRead, "Show an account's abuse score and its newest events", b.accountAbuse),
		row("account.search", "GET", "/search", AccountsRead, "Find accounts by e-mail address, id, last four of a key, or request id", b.accountSearch),
		row("account.signals", "GET", "/accounts/{ref}/signals", AccountsRead, "Show patterns in an account's calls that hint at resale or proxying", b.accountSignals),
		row("request.show", "GET", "/requests/{id}", AccountsRead, "Show the way of a request: account, key, route, attempts, times, tokens, outcome", b.requestShow),
		row("request.refused", "GET", "/accounts/{ref}/refused", AccountsRead, "List the last refused calls of an account, and how many there were by hour", b.requestRefused),
		row("account.evidence", "GET", "/accounts/{ref}/evidence", AccountsRead, "Show the score of the month, and the requests of the last days by hour, model and key", b.accountEvidence),
		row("account.set-plan", "POST", "/accounts/{ref}/plan", AccountsWrite, "Grant a plan, without a charge; none takes it away", b.accountSetPlan),
		row("account.set-limits", "POST", "/accounts/{ref}/limits", AccountsWrite, "Override the limits of the account's plan", b.accountSetLimits),
		row("account.set-aliases", "POST", "/accounts/{ref}/aliases", AccountsWrite, "Change the names that the account may use in place of the ids of models", b.accountSetAliases),
		row("account.suspend", "POST", "/accounts/{ref}/suspend", AccountsWrite, "Suspend an account: its requests are refused", b.accountSuspend),
		row("account.unsuspend", "POST", "/accounts/{ref}/unsuspend", AccountsWrite, "Lift a suspension", b.accountUnsuspend),
		row("account.terminate", "POST", "/accounts/{ref}/terminate", AccountsWrite, "End the subscription and suspend the account for good", b.accountTerminate),
		row("account.note", "POST", "/accounts/{ref}/notes", AccountsWrite, "Write a note to the audit log", b.accountNote),
		row("account.messages", "GET", "/accounts/{ref}/messages", AccountsRead, "List what an account was told and what its owner answered", b.accountMessages),
		row("account.sessions", "GET", "/accounts/{ref}/sessions", AccountsRead, "List where the owner of an account is signed in", b.accountSessions),
		row("account.sign-out", "POST", "/accounts/{ref}/sign-out", SignInWrite, "End all sessions and pending links of an account", b.accountSignOut),
		row("account.reset-second-factor", "POST", "/accounts/{ref}/reset-second-factor", SignInWrite, "Turn two-step sign-in off and remove all passkeys for somebody who has lost them", b.accountResetFactor),
		local("account.set-staff", b.accountSetStaff),
		row("key.list", "GET", "/accounts/{ref}/keys", AccountsRead, "List the keys of an account", b.keyList),
		row("key.create", "POST", "/accounts/{ref}/keys", KeysWrite, "Create a sub-key; the reply has the key, which is shown only once", b.keyCreate),
		row("key.rename", "POST", "/keys/{ref}/name", KeysWrite, "Rename a sub-key", b.keyRename),
		row("key.set-limits", "POST", "/keys/{ref}/limits", KeysWrite, "Replace the limits of a sub-key, which narrow those of its account", b.keySetLimits),
		row("key.delete", "DELETE", "/keys/{ref}", KeysWrite, "Delete a sub-key; it is refused at once", b.keyDelete),
		row("key.regenerate-master", "POST", "/accounts/{ref}/keys/master", KeysWrite, "Replace the master key; the reply has the new one, which is shown only once", b.keyRegenerateMaster),
		row("key.deactivate", "POST", "/accounts/{ref}/keys/deactivate", KeysWrite, "Deactivate all keys of an account", b.keyDeactivate),
		row("key.restore", "POST", "/accounts/{ref}/keys/restore", KeysWrite, "Restore deactivated keys and reset the abuse score", b.keyRestore),
		row("signin-link", "POST", "/signin-links", SignInWrite, "Make a link that signs a customer in once", b.signInLink),
		row("usage", "GET", "/accounts/{ref}/usage", AccountsRead, "Sum up an account's usage by day, model or key", b.usage),
		row("billing.show", "GET", "/accounts/{ref}/billing", BillingRead, "Show an account's subscription, payments and ledger", b.billingShow),
		row("billing.advance", "POST", "/accounts/{ref}/billing/advance", BillingWrite, "Move an account's clock, in test mode only", b.billingAdvance),
		row("billing.downgrade", "POST", "/accounts/{ref}/billing/downgrade", BillingWrite, "Set a lower plan for the next period", b.billingDowngrade),
		row("billing.release", "POST", "/accounts/{ref}/billing/release", BillingWrite, "Let payments of an account be made again", b.billingRelease),
		row("billing.refund", "POST", "/payments/{payment}/refund", BillingWrite, "Refund a payment, or a part of it", b.billingRefund),
		row("billing.credit", "POST", "/accounts/{ref}/billing/credit", BillingWrite, "Change the credit that lowers the next renewals", b.billingCredit),
		row("billing.stops", "GET", "/billing/stops", BillingRead, "List accounts whose billing is stopped", b.billingStops),
		row("matter.list", "GET", "/matters", MattersRead, "List what waits for support, oldest first, or another list of matters", b.matterList),
		row("matter.counts", "GET", "/matters/counts", MattersRead, "Count what waits for support, for customers, and what is snoozed", b.matterCounts),
		row("matter.open", "POST", "/accounts/{ref}/matters", MattersWrite, "Write to a customer", b.matterOpen),
		row("matter.show", "GET", "/matters/{id}", MattersRead, "Show a matter with its messages", b.matterShow),
		row("matter.answer", "POST", "/matters/{id}/answer", MattersWrite, "Answer a customer", b.matterAnswer),
		row("matter.assign", "POST", "/matters/{id}/assign", MattersWrite, "Assign a matter to a member of staff, or to nobody", b.matterAssign),
		row("matter.snooze", "POST", "/matters/{id}/snooze", MattersWrite, "Take a matter out of the queue until a time", b.matterSnooze),
		row("matter.close", "POST", "/matters/{id}/close", MattersWrite, "Close a matter", b.matterClose),
		row("matter.reopen", "POST", "/matters/{id}/reopen", MattersWrite, "Put a closed or snoozed matter back into the queue", b.matterReopen),
		row("matter.decide", "POST", "/matters/{id}/decide", MattersWrite, "Clear, warn, restore or suspend the account of a matter, tell the customer, and close it", b.matterDecide),
		row("models.standing", "GET", "/models", OperationsRead, "List models, where they come from and how healthy they are", b.modelsStanding),
		row("models.refresh", "POST", "/models/refresh", OperationsWrite, "Look for models now", b.modelsRefresh),
		row("models.moves", "GET", "/models/moves", OperationsRead, "List models that staff has moved or will move to another tier", b.modelsMoves),
		row("models.move", "POST", "/models/move", OperationsWrite, "Move a model to another tier, at once or with notice", b.modelsMove),
		row("models.move-back", "POST", "/models/move-back", OperationsWrite, "Give a model its configured tier again", b.modelsMoveBack),
		row("router.feedback", "GET", "/router/feedback", OperationsRead, "List how far feedback has moved models at each kind of task", b.routerFeedback),
		row("router.reset", "POST", "/router/reset", OperationsWrite, "Forget the feedback about a model, or all of it", b.routerReset),
		row("upstream.list", "GET", "/upstreams", OperationsRead, "List the upstreams of the server, their health and their calls", b.upstreamList),
		row("upstream.series", "GET", "/upstreams/series", OperationsRead, "List upstreams with their calls in the last three hours, in parts of five minutes", b.upstreamSeries),
		row("upstream.drains", "GET", "/upstreams/drains", OperationsRead, "List what is drained", b.upstreamDrains),
		row("upstream.drain", "POST", "/upstreams/drain", OperationsWrite, "Send no new calls to an upstream", b.upstreamDrain),
		row("upstream.enable", "POST", "/upstreams/enable", OperationsWrite, "Send calls to an upstream again", b.upstreamEnable),
		row("maintenance.list", "GET", "/maintenance", OperationsRead, "List the maintenance that holds or will", b.maintenanceList),
		row("maintenance.start", "POST", "/maintenance", OperationsWrite, "Answer calls of models, or of all, with 503", b.maintenanceStart),
		row("maintenance.end", "DELETE", "/maintenance/{id}", OperationsWrite, "End maintenance", b.maintenanceEnd),
		row("announcement.list", "GET", "/announcements", OperationsRead, "List the announcements that are shown or will be", b.announcementList),
		row("announcement.post", "POST", "/announcements", OperationsWrite, "Show a banner on every page", b.announcementPost),
		row("announcement.end", "DELETE", "/announcements/{id}", OperationsWrite, "Remove an announcement", b.announcementEnd),
		row("steering.history", "GET", "/steering/history", OperationsRead, "List who drained, moved, closed and announced what, newest first", b.steeringHistory),
		row("overview.show", "GET", "/overview", OperationsRead, "Show what the service does: the last three hours by minute, who loads it, sign-ups, plans and revenue", b.overviewShow),
		row("status", "GET", "/status", OperationsRead, "Show the state of the server", b.showStatus),
		row("reload", "POST", "/reload", OperationsWrite, "Apply the configuration file again", b.applyConfig),
		row("alert.list", "GET", "/alerts", OperationsRead, "List what the operator was told, newest first", b.alertList),
		row("alert.endpoints", "GET", "/alerts/endpoints", OperationsRead, "List the operator's endpoints for alerts", b.alertEndpoints),
		row("alert.test", "POST", "/alerts/test", OperationsWrite, "Send a test to all endpoints of the operator", b.alertTest),
		row("alert.deliveries", "GET", "/alerts/deliveries", OperationsRead, "List deliveries to the operator or to an account, newest first", b.alertDeliveries),
		row("alert.show", "GET", "/alerts/deliveries/{ref}", OperationsRead, "Show a delivery with its body", b.alertShow),
		row("alert.replay", "POST", "/alerts/deliveries/{ref}/replay", OperationsWrite, "Send a delivery again that has ended, under its id", b.alertReplay),
		row("staff.token-create", "", "", TokensWrite, "", b.tokenCreate),
		row("staff.token-list", "", "", TokensWrite, "", b.tokenList),
		row("staff.token-delete", "", "", TokensWrite, "", b.tokenDelete),
		local("models", b.models),
		local("audit", b.audit),
		local("journal.parts", b.journalParts),
		local("journal.read", b.journalRead),
		local("journal.damage", b.journalDamage),
		local("journal.acknowledge", b.journalAcknowledge),
		local("debug", b.debug),
		local("examine", b.examine),
	}
}
