package admin

import (
	"encoding/json"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/signal"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/upstream/routing"
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
	TicketsRead     Scope = "matters:read"
	TicketsWrite    Scope = "matters:write"
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
		{AccountsWrite, "create and change accounts: plans, limits, budgets, suspensions, notes"},
		{KeysWrite, "create, rename, limit, delete, deactivate and restore keys of customers"},
		{SignInWrite, "create sign-in links for customers, reset their second factor, sign them out"},
		{BillingRead, "read subscriptions, payments and ledgers"},
		{BillingWrite, "downgrade, credit, refund and release payments"},
		{TicketsRead, "read tickets: the queue and the threads with customers"},
		{TicketsWrite, "answer, assign, snooze, close and decide tickets; a decision can restore or suspend the account"},
		{OperationsRead, "read the state of the server, its models and upstreams"},
		{OperationsWrite, "drain upstreams, move and close models, announce, write incidents, look for models, reload the configuration"},
	}
}

// Base is the path of the admin API.
const Base = "/admin/v1"

// Operations are all operations, with the types of their arguments and results.
type Operations struct {
	AccountStory                                                   Op[StoryQuery, Story]
	AccountTimeline                                                Op[TimelineQuery, List[Happening]]
	AccountBrowse                                                  Op[AccountQuery, Accounts]
	UpstreamImpact                                                 Op[UpstreamTarget, Impact]
	AccountList                                                    Op[Cursor, List[Account]]
	AccountCreate                                                  Op[NewAccount, CreatedAccount]
	AccountShow, AccountSetPlan, AccountSuspend, AccountUnsuspend  Op[Target, Account]
	AccountTerminate, AccountSignOut                               Op[Target, Account]
	AccountResetSecondFactor, KeyDeactivate, KeyRestore            Op[Target, Account]
	AccountHistory                                                 Op[AccountPage, List[account.Entry]]
	AccountAbuse                                                   Op[Target, Abuse]
	AccountSearch                                                  Op[SearchQuery, List[Match]]
	AccountSignals                                                 Op[Target, signal.Report]
	RequestShow                                                    Op[RequestQuery, Requests]
	RequestRefused                                                 Op[AccountPage, Refused]
	RequestNewest                                                  Op[NewestQuery, List[RefusedCall]]
	AccountLog                                                     Op[TimelineQuery, List[account.Entry]]
	AccountEvidence                                                Op[Target, Evidence]
	AccountSetLimits                                               Op[NewLimits, Account]
	AccountSetAliases                                              Op[NewAliases, Account]
	AccountSetReplies                                              Op[NewReplies, Account]
	ReceiptKeys, ReceiptRotate                                     Op[Empty, ReceiptKeys]
	AccountNote                                                    Op[Note, Account]
	AccountMessages                                                Op[AccountPage, List[Message]]
	AccountSessions                                                Op[AccountPage, List[signin.Session]]
	AccountSetStaff                                                Op[StaffFlag, Account]
	KeyList                                                        Op[AccountPage, List[Key]]
	KeyCreate                                                      Op[KeyOrder, NewKey]
	KeyRename                                                      Op[Target, Key]
	KeySetLimits                                                   Op[KeyOrder, Key]
	KeyDelete                                                      Op[Target, Empty]
	KeyRegenerateMaster                                            Op[Target, RawKey]
	BudgetList                                                     Op[AccountPage, List[budget.Record]]
	BudgetSet                                                      Op[BudgetOrder, budget.Record]
	BudgetDelete                                                   Op[BudgetRef, DeletedBudget]
	BudgetWatch                                                    Op[WatchOrder, runaway.Record]
	BudgetResume                                                   Op[KeyToResume, runaway.Record]
	SignInLinkCreate                                               Op[Target, SignInLink]
	UsageShow                                                      Op[UsageQuery, Usage]
	UsageCaches                                                    Op[Days, []usage.ServedRow]
	WhatIfRun                                                      Op[WhatIfQuery, WhatIf]
	WhatIfReport                                                   Op[WhatIfOrder, *whatif.Report]
	WhatIfModels                                                   Op[Empty, []string]
	UsageExplain                                                   Op[ExplainQuery, costs.Reply]
	UsageCosts                                                     Op[ExplainQuery, *costs.Explanation]
	PricesReprice                                                  Op[RepriceOrder, Repriced]
	BillingShow, BillingDowngrade, BillingRelease                  Op[Target, Billing]
	BillingAdvance                                                 Op[Move, Billing]
	BillingRefund                                                  Op[RefundOrder, Billing]
	BillingCredit                                                  Op[Credit, Billing]
	BillingStops                                                   Op[Cursor, List[billing.Stopped]]
	TicketList                                                     Op[TicketQuery, List[ticket.Ticket]]
	TicketCount                                                    Op[Empty, TicketCounts]
	TicketOpen                                                     Op[NewTicket, TicketThread]
	TicketShow                                                     Op[TicketRef, TicketThread]
	TicketAnswer, TicketAssign, TicketSnooze                       Op[TicketStep, TicketThread]
	TicketClose, TicketReopen, TicketDecide                        Op[TicketStep, TicketThread]
	ModelsStanding, ModelsRefresh                                  Op[Cursor, List[ModelState]]
	ModelsMoves, UpstreamDrains, MaintenanceList, AnnouncementList Op[Cursor, List[steering.Order]]
	ModelsMove, ModelsMoveBack                                     Op[ModelMove, steering.Order]
	RouterFeedback                                                 Op[Cursor, List[feedback.Rating]]
	RouterForget                                                   Op[RouterReset, RouterReset]
	PricesList                                                     Op[PriceQuery, List[Price]]
	PricesCheck                                                    Op[Empty, []PriceFinding]
	PricesImport                                                   Op[PriceImport, PriceChanges]
	PricesHistory                                                  Op[Cursor, List[price.Seen]]
	UpstreamList                                                   Op[Cursor, List[routing.TargetHealth]]
	UpstreamSeries                                                 Op[Cursor, List[overview.Upstream]]
	UpstreamDrain, UpstreamEnable                                  Op[UpstreamTarget, steering.Order]
	MaintenanceStart                                               Op[NewMaintenance, steering.Order]
	MaintenanceEnd, AnnouncementEnd                                Op[EndedOrder, steering.Order]
	AnnouncementPost                                               Op[NewAnnouncement, steering.Order]
	IncidentList                                                   Op[Cursor, List[incident.Incident]]
	IncidentShow                                                   Op[IncidentRef, incident.Incident]
	IncidentOpen                                                   Op[NewIncident, incident.Incident]
	IncidentUpdate                                                 Op[IncidentUpdate, incident.Incident]
	IncidentEdit                                                   Op[IncidentEdit, incident.Incident]
	IncidentDelete                                                 Op[EndedOrder, incident.Incident]
	IncidentSubscribers                                            Op[Empty, Subscribers]
	SteeringHistory                                                Op[Cursor, List[account.Entry]]
	OverviewShow                                                   Op[Empty, overview.Report]
	StatusShow                                                     Op[Empty, Status]
	ConfigReload                                                   Op[Empty, Reloaded]
	AlertList                                                      Op[Cursor, List[alert.Event]]
	AlertEndpoints                                                 Op[Cursor, List[alert.Endpoint]]
	AlertTest                                                      Op[Empty, List[alert.Delivery]]
	AlertDeliveries                                                Op[AlertQuery, List[alert.Delivery]]
	AlertShow, AlertReplay                                         Op[Target, alert.Delivery]
	TokenCreate                                                    Op[NewToken, CreatedToken]
	TokenList                                                      Op[AccountPage, List[Token]]
	TokenDelete                                                    Op[Target, Token]
	ReconcileRun                                                   Op[ReconcileOrder, reconcile.Report]
	ReconcileList                                                  Op[Cursor, List[reconcile.Report]]
	ReconcileShow                                                  Op[ReportQuery, reconcile.Report]
	ModelsJSON                                                     Op[ModelQuery, json.RawMessage]
	AuditRun                                                       Op[Empty, Audit]
	JournalParts                                                   Op[Empty, []usage.Part]
	JournalRead                                                    Op[JournalPiece, []byte]
	JournalDamage                                                  Op[Empty, []usage.Damage]
	JournalAcknowledge                                             Op[Target, []usage.Damage]
	DebugShow                                                      Op[Empty, Debug]
	ServerExamine                                                  Op[Asking, json.RawMessage]

	routes []*Route // those that are served, in the order of the table
}

// operations returns the operations. This is the one list of them: the socket, the admin API, its description and its
// client are made from it, in this order.
func operations() *Operations {
	t := &table{}
	o := &Operations{
		// For the console alone, whose pages show what the admin API has in pieces.
		AccountStory:    console("account.story", AccountsRead, (*Backend).accountStory),
		AccountTimeline: console("account.timeline", AccountsRead, (*Backend).accountTimeline),
		AccountBrowse:   console("account.browse", AccountsRead, (*Backend).accountBrowse),
		AccountLog:      console("account.log", AccountsRead, (*Backend).accountLog),
		RequestNewest:   console("request.newest", AccountsRead, (*Backend).requestNewest),
		UpstreamImpact:  console("upstream.impact", OperationsRead, (*Backend).upstreamImpact),
		UsageCaches:     console("usage.caches", OperationsRead, (*Backend).usageCaches),
		UsageCosts:      console("usage.costs", AccountsRead, (*Backend).usageCosts),

		AccountList:              op(t, "account.list", "GET", "/accounts", AccountsRead, "List accounts in order of their ids", (*Backend).accountList),
		AccountCreate:            op(t, "account.create", "POST", "/accounts", AccountsWrite, "Create an account; the reply has its master key, which is shown only once", (*Backend).accountCreate),
		AccountShow:              op(t, "account.show", "GET", "/accounts/{ref}", AccountsRead, "Show an account with its limits and keys", (*Backend).accountShow),
		AccountHistory:           op(t, "account.history", "GET", "/accounts/{ref}/history", AccountsRead, "List who changed an account, when and why, newest first", (*Backend).accountHistory),
		AccountAbuse:             op(t, "account.abuse", "GET", "/accounts/{ref}/abuse", AccountsRead, "Show an account's abuse score and its newest events", about((*Backend).abuseOf)),
		AccountSearch:            op(t, "account.search", "GET", "/search", AccountsRead, "Find accounts by e-mail address, id, last four of a key, or request id", (*Backend).accountSearch),
		AccountSignals:           op(t, "account.signals", "GET", "/accounts/{ref}/signals", AccountsRead, "Show patterns in an account's calls that hint at resale or proxying", about((*Backend).signalsOf)),
		RequestShow:              op(t, "request.show", "GET", "/requests/{id}", AccountsRead, "Show how a request was handled: account, key, route, attempts, times, tokens, outcome", (*Backend).requestShow),
		RequestRefused:           op(t, "request.refused", "GET", "/accounts/{ref}/refused", AccountsRead, "List the last refused calls of an account, and how many there were by hour", (*Backend).requestRefused),
		AccountEvidence:          op(t, "account.evidence", "GET", "/accounts/{ref}/evidence", AccountsRead, "Show the score of the month, and the requests of the last days by hour, model and key", about((*Backend).evidenceOf)),
		AccountSetPlan:           op(t, "account.set-plan", "POST", "/accounts/{ref}/plan", AccountsWrite, "Grant a plan, without a charge; none takes it away", (*Backend).accountSetPlan),
		AccountSetLimits:         op(t, "account.set-limits", "POST", "/accounts/{ref}/limits", AccountsWrite, "Override the limits of the account's plan", (*Backend).accountSetLimits),
		AccountSetAliases:        op(t, "account.set-aliases", "POST", "/accounts/{ref}/aliases", AccountsWrite, "Change the names that the account may use in place of the ids of models", (*Backend).accountSetAliases),
		AccountSetReplies:        op(t, "account.set-replies", "POST", "/accounts/{ref}/replies", AccountsWrite, "Change what the replies to the account say, and whether its calls leave receipts", (*Backend).accountSetReplies),
		AccountSuspend:           op(t, "account.suspend", "POST", "/accounts/{ref}/suspend", AccountsWrite, "Suspend an account: its requests are refused", (*Backend).accountSuspend),
		AccountUnsuspend:         op(t, "account.unsuspend", "POST", "/accounts/{ref}/unsuspend", AccountsWrite, "Lift a suspension", (*Backend).accountUnsuspend),
		AccountTerminate:         op(t, "account.terminate", "POST", "/accounts/{ref}/terminate", AccountsWrite, "End the subscription and suspend the account for good", (*Backend).accountTerminate),
		AccountNote:              op(t, "account.note", "POST", "/accounts/{ref}/notes", AccountsWrite, "Write a note to the audit log", (*Backend).accountNote),
		AccountMessages:          op(t, "account.messages", "GET", "/accounts/{ref}/messages", AccountsRead, "List what an account was told and what its owner answered", (*Backend).accountMessages),
		AccountSessions:          op(t, "account.sessions", "GET", "/accounts/{ref}/sessions", AccountsRead, "List where the owner of an account is signed in", (*Backend).accountSessions),
		AccountSignOut:           op(t, "account.sign-out", "POST", "/accounts/{ref}/sign-out", SignInWrite, "End all sessions and pending links of an account", (*Backend).accountSignOut),
		AccountResetSecondFactor: op(t, "account.reset-second-factor", "POST", "/accounts/{ref}/reset-second-factor", SignInWrite, "Turn two-step sign-in off and remove all passkeys for somebody who has lost them", (*Backend).accountResetFactor),
		AccountSetStaff:          local(t, "account.set-staff", (*Backend).accountSetStaff),
		KeyList:                  op(t, "key.list", "GET", "/accounts/{ref}/keys", AccountsRead, "List the keys of an account", (*Backend).keyList),
		KeyCreate:                op(t, "key.create", "POST", "/accounts/{ref}/keys", KeysWrite, "Create a sub-key; the reply has the key, which is shown only once", (*Backend).keyCreate),
		KeyRename:                op(t, "key.rename", "POST", "/keys/{ref}/name", KeysWrite, "Rename a sub-key", (*Backend).keyRename),
		KeySetLimits:             op(t, "key.set-limits", "POST", "/keys/{ref}/limits", KeysWrite, "Replace the limits of a sub-key, which narrow those of its account", (*Backend).keySetLimits),
		KeyDelete:                op(t, "key.delete", "DELETE", "/keys/{ref}", KeysWrite, "Delete a sub-key; it is refused at once", (*Backend).keyDelete),
		KeyRegenerateMaster:      op(t, "key.regenerate-master", "POST", "/accounts/{ref}/keys/master", KeysWrite, "Replace the master key; the reply has the new one, which is shown only once", (*Backend).keyRegenerateMaster),
		KeyDeactivate:            op(t, "key.deactivate", "POST", "/accounts/{ref}/keys/deactivate", KeysWrite, "Deactivate all keys of an account", (*Backend).keyDeactivate),
		KeyRestore:               op(t, "key.restore", "POST", "/accounts/{ref}/keys/restore", KeysWrite, "Restore deactivated keys and reset the abuse score", (*Backend).keyRestore),
		BudgetList:               op(t, "budget.list", "GET", "/accounts/{ref}/budgets", AccountsRead, "List the budgets of an account, and what is spent of them", (*Backend).budgetList),
		BudgetSet:                op(t, "budget.set", "POST", "/accounts/{ref}/budgets", AccountsWrite, "Make a budget of an account, or change the one with an id", (*Backend).budgetSet),
		BudgetDelete:             op(t, "budget.delete", "DELETE", "/accounts/{ref}/budgets/{id}", AccountsWrite, "Delete a budget of an account", (*Backend).budgetDelete),
		BudgetWatch:              op(t, "budget.watch", "POST", "/accounts/{ref}/budgets/watch", AccountsWrite, "Change what is done about programs of an account that run away", (*Backend).budgetWatch),
		BudgetResume:             op(t, "budget.resume", "POST", "/accounts/{ref}/budgets/resume", AccountsWrite, "Let the calls of a key pass again that the runaway watch has paused", (*Backend).budgetResume),
		SignInLinkCreate:         op(t, "signin-link", "POST", "/signin-links", SignInWrite, "Create a link that signs a customer in once", (*Backend).signInLink),
		UsageShow:                op(t, "usage", "GET", "/accounts/{ref}/usage", AccountsRead, "Sum up an account's usage by day, model or key", (*Backend).usage),
		WhatIfRun:                op(t, "whatif", "POST", "/whatif", AccountsRead, "Say what past calls would have cost with other prices, models, caches or batches", (*Backend).whatIf),
		WhatIfReport:             console("whatif.report", AccountsRead, (*Backend).whatIfReport),
		WhatIfModels:             console("whatif.models", AccountsRead, (*Backend).whatIfModels),
		UsageExplain:             op(t, "usage.explain", "GET", "/accounts/{ref}/usage/explain", AccountsRead, "Explain an account's costs down to the formula of each call", (*Backend).usageExplain),
		PricesReprice:            op(t, "prices.reprice", "POST", "/prices/reprice", BillingWrite, "Compute the costs of past calls by today's prices, and store the differences as corrections", (*Backend).pricesReprice),
		BillingShow:              op(t, "billing.show", "GET", "/accounts/{ref}/billing", BillingRead, "Show an account's subscription, payments and ledger", (*Backend).billingShow),
		BillingAdvance:           op(t, "billing.advance", "POST", "/accounts/{ref}/billing/advance", BillingWrite, "Move an account's clock, in test mode only", (*Backend).billingAdvance),
		BillingDowngrade:         op(t, "billing.downgrade", "POST", "/accounts/{ref}/billing/downgrade", BillingWrite, "Set a lower plan for the next period", (*Backend).billingDowngrade),
		BillingRelease:           op(t, "billing.release", "POST", "/accounts/{ref}/billing/release", BillingWrite, "Resume the payments of an account", (*Backend).billingRelease),
		BillingRefund:            op(t, "billing.refund", "POST", "/payments/{payment}/refund", BillingWrite, "Refund a payment, or a part of it", (*Backend).billingRefund),
		BillingCredit:            op(t, "billing.credit", "POST", "/accounts/{ref}/billing/credit", BillingWrite, "Change the credit that lowers the next renewals", (*Backend).billingCredit),
		BillingStops:             op(t, "billing.stops", "GET", "/billing/stops", BillingRead, "List accounts whose billing is stopped", (*Backend).billingStops),
		TicketList:               op(t, "matter.list", "GET", "/matters", TicketsRead, "List what is waiting for support, oldest first, or another list of tickets", (*Backend).ticketList),
		TicketCount:              op(t, "matter.counts", "GET", "/matters/counts", TicketsRead, "Count what waits for support, for customers, and what is snoozed", (*Backend).ticketCounts),
		TicketOpen:               op(t, "matter.open", "POST", "/accounts/{ref}/matters", TicketsWrite, "Write to a customer", (*Backend).ticketOpen),
		TicketShow:               op(t, "matter.show", "GET", "/matters/{id}", TicketsRead, "Show a ticket with its messages", (*Backend).ticketShow),
		TicketAnswer:             op(t, "matter.answer", "POST", "/matters/{id}/answer", TicketsWrite, "Answer a customer", (*Backend).ticketAnswer),
		TicketAssign:             op(t, "matter.assign", "POST", "/matters/{id}/assign", TicketsWrite, "Assign a ticket to a member of staff, or to nobody", (*Backend).ticketAssign),
		TicketSnooze:             op(t, "matter.snooze", "POST", "/matters/{id}/snooze", TicketsWrite, "Take a ticket out of the queue until a time", (*Backend).ticketSnooze),
		TicketClose:              op(t, "matter.close", "POST", "/matters/{id}/close", TicketsWrite, "Close a ticket", (*Backend).ticketClose),
		TicketReopen:             op(t, "matter.reopen", "POST", "/matters/{id}/reopen", TicketsWrite, "Put a closed or snoozed ticket back into the queue", (*Backend).ticketReopen),
		TicketDecide:             op(t, "matter.decide", "POST", "/matters/{id}/decide", TicketsWrite, "Clear, warn, restore or suspend the account of a ticket, tell the customer, and close it", (*Backend).ticketDecide),
		ModelsStanding:           op(t, "models.standing", "GET", "/models", OperationsRead, "List models, where they come from and how healthy they are", (*Backend).modelsStanding),
		ModelsRefresh:            op(t, "models.refresh", "POST", "/models/refresh", OperationsWrite, "Look for models now", (*Backend).modelsRefresh),
		ModelsMoves:              op(t, "models.moves", "GET", "/models/moves", OperationsRead, "List models that staff has moved or will move to another tier", orders(steering.Move)),
		ModelsMove:               op(t, "models.move", "POST", "/models/move", OperationsWrite, "Move a model to another tier, at once or with notice", (*Backend).modelsMove),
		ModelsMoveBack:           op(t, "models.move-back", "POST", "/models/move-back", OperationsWrite, "Give a model its configured tier again", (*Backend).modelsMoveBack),
		RouterFeedback:           op(t, "router.feedback", "GET", "/router/feedback", OperationsRead, "List how feedback has changed the scores of models, by kind of task", (*Backend).routerFeedback),
		RouterForget:             op(t, "router.reset", "POST", "/router/reset", OperationsWrite, "Delete the feedback about a model, or all of it", (*Backend).routerReset),
		PricesList:               op(t, "prices.list", "GET", "/prices", OperationsRead, "List what models cost at their vendors, all prices of one model, or the whole book", (*Backend).pricesList),
		PricesCheck:              op(t, "prices.check", "GET", "/prices/check", OperationsRead, "List what is missing or old in the prices", (*Backend).pricesCheck),
		PricesImport:             op(t, "prices.import", "POST", "/prices/import", OperationsWrite, "Compare prices with the book and, with take, put those that differ in force", (*Backend).pricesImport),
		PricesHistory:            op(t, "prices.history", "GET", "/prices/history", OperationsRead, "List the prices that are or were in force, the latest first", (*Backend).pricesHistory),
		UpstreamList:             op(t, "upstream.list", "GET", "/upstreams", OperationsRead, "List the upstreams of the server, their health and their calls", (*Backend).upstreamList),
		UpstreamSeries:           op(t, "upstream.series", "GET", "/upstreams/series", OperationsRead, "List upstreams with their calls in the last three hours, in parts of five minutes", (*Backend).upstreamSeries),
		UpstreamDrains:           op(t, "upstream.drains", "GET", "/upstreams/drains", OperationsRead, "List what is drained", orders(steering.Drain)),
		UpstreamDrain:            op(t, "upstream.drain", "POST", "/upstreams/drain", OperationsWrite, "Send no new calls to an upstream", (*Backend).upstreamDrain),
		UpstreamEnable:           op(t, "upstream.enable", "POST", "/upstreams/enable", OperationsWrite, "Send calls to an upstream again", (*Backend).upstreamEnable),
		MaintenanceList:          op(t, "maintenance.list", "GET", "/maintenance", OperationsRead, "List current and planned maintenance", orders(steering.Maintenance)),
		MaintenanceStart:         op(t, "maintenance.start", "POST", "/maintenance", OperationsWrite, "Answer calls to some or all models with 503", (*Backend).maintenanceStart),
		MaintenanceEnd:           op(t, "maintenance.end", "DELETE", "/maintenance/{id}", OperationsWrite, "End maintenance", endOrder(steering.Maintenance)),
		AnnouncementList:         op(t, "announcement.list", "GET", "/announcements", OperationsRead, "List current and planned announcements", orders(steering.Announcement)),
		AnnouncementPost:         op(t, "announcement.post", "POST", "/announcements", OperationsWrite, "Show a banner on every page", (*Backend).announcementPost),
		AnnouncementEnd:          op(t, "announcement.end", "DELETE", "/announcements/{id}", OperationsWrite, "Remove an announcement", endOrder(steering.Announcement)),
		IncidentList:             op(t, "incident.list", "GET", "/incidents", OperationsRead, "List incidents and planned maintenance, those that began last first", (*Backend).incidentList),
		IncidentShow:             op(t, "incident.show", "GET", "/incidents/{id}", OperationsRead, "Show an incident with its updates", (*Backend).incidentShow),
		IncidentOpen:             op(t, "incident.open", "POST", "/incidents", OperationsWrite, "Tell people of an incident or of planned maintenance: on the status page, by mail and by webhook", (*Backend).incidentOpen),
		IncidentUpdate:           op(t, "incident.update", "POST", "/incidents/{id}/updates", OperationsWrite, "Add an update to an incident, or resolve it", (*Backend).incidentUpdate),
		IncidentEdit:             op(t, "incident.edit", "POST", "/incidents/{id}", OperationsWrite, "Correct an incident or the text of an update, or add a postmortem; nobody is told", (*Backend).incidentEdit),
		IncidentDelete:           op(t, "incident.delete", "DELETE", "/incidents/{id}", OperationsWrite, "Delete an incident that was opened by mistake", (*Backend).incidentDelete),
		IncidentSubscribers:      op(t, "incident.subscribers", "GET", "/incidents/subscribers", OperationsRead, "Count the addresses that get mail about incidents", (*Backend).incidentSubscribers),
		SteeringHistory:          op(t, "steering.history", "GET", "/steering/history", OperationsRead, "List who drained, moved, closed and announced what, newest first", (*Backend).steeringHistory),
		OverviewShow:             op(t, "overview.show", "GET", "/overview", OperationsRead, "Show the traffic of the last three hours by minute, the busiest accounts, sign-ups, plans and revenue", (*Backend).overviewShow),
		StatusShow:               op(t, "status", "GET", "/status", OperationsRead, "Show the state of the server", (*Backend).showStatus),
		ConfigReload:             op(t, "reload", "POST", "/reload", OperationsWrite, "Apply the configuration file again", (*Backend).applyConfig),
		AlertList:                op(t, "alert.list", "GET", "/alerts", OperationsRead, "List the alerts of the operator, newest first", (*Backend).alertList),
		AlertEndpoints:           op(t, "alert.endpoints", "GET", "/alerts/endpoints", OperationsRead, "List the operator's endpoints for alerts", (*Backend).alertEndpoints),
		AlertTest:                op(t, "alert.test", "POST", "/alerts/test", OperationsWrite, "Send a test alert to all endpoints of the operator", (*Backend).alertTest),
		AlertDeliveries:          op(t, "alert.deliveries", "GET", "/alerts/deliveries", OperationsRead, "List deliveries to the operator or to an account, newest first", (*Backend).alertDeliveries),
		AlertShow:                op(t, "alert.show", "GET", "/alerts/deliveries/{ref}", OperationsRead, "Show a delivery with its body", (*Backend).alertShow),
		AlertReplay:              op(t, "alert.replay", "POST", "/alerts/deliveries/{ref}/replay", OperationsWrite, "Resend a delivery that has ended, under the same id", (*Backend).alertReplay),
		TokenCreate:              op(t, "staff.token-create", "", "", TokensWrite, "", (*Backend).tokenCreate),
		TokenList:                op(t, "staff.token-list", "", "", TokensWrite, "", (*Backend).tokenList),
		TokenDelete:              op(t, "staff.token-delete", "", "", TokensWrite, "", (*Backend).tokenDelete),
		ReconcileList:            op(t, "reconcile.list", "GET", "/reconciliations", BillingRead, "List the last comparisons with vendors' exports, newest first", (*Backend).reconcileList),
		ReconcileShow:            op(t, "reconcile.show", "GET", "/reconciliations/{id}", BillingRead, "Show a comparison with a vendor's exports: every difference with its class, and the prices that follow from it", (*Backend).reconcileShow),
		ReconcileRun:             local(t, "reconcile.run", (*Backend).reconcileRun),
		ModelsJSON:               local(t, "models", (*Backend).models),
		AuditRun:                 local(t, "audit", (*Backend).audit),
		JournalParts:             local(t, "journal.parts", (*Backend).journalParts),
		JournalRead:              local(t, "journal.read", (*Backend).journalRead),
		ReceiptKeys:              local(t, "receipt.keys", (*Backend).receiptKeys),
		ReceiptRotate:            local(t, "receipt.rotate", (*Backend).receiptRotate),
		JournalDamage:            local(t, "journal.damage", (*Backend).journalDamage),
		JournalAcknowledge:       local(t, "journal.acknowledge", (*Backend).journalAcknowledge),
		DebugShow:                local(t, "debug", (*Backend).debug),
		ServerExamine:            local(t, "examine", (*Backend).examine),
	}
	o.routes = *t
	return o
}
