package admin

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

// AccountStory is for the console, which shows all of an account on one page.
var AccountStory = console("account.story", AccountsRead, (*Backend).accountStory)

// The operations. This is the one list of them: the socket, the admin API, its description and its client are made from
// it, in this order.
var (
	AccountList              = op("account.list", "GET", "/accounts", AccountsRead, "List accounts in order of their ids", (*Backend).accountList)
	AccountCreate            = op("account.create", "POST", "/accounts", AccountsWrite, "Create an account; the reply has its master key, which is shown only once", (*Backend).accountCreate)
	AccountShow              = op("account.show", "GET", "/accounts/{ref}", AccountsRead, "Show an account with its limits and keys", (*Backend).accountShow)
	AccountHistory           = op("account.history", "GET", "/accounts/{ref}/history", AccountsRead, "List who changed an account, when and why, newest first", (*Backend).accountHistory)
	AccountAbuse             = op("account.abuse", "GET", "/accounts/{ref}/abuse", AccountsRead, "Show an account's abuse score and its newest events", (*Backend).accountAbuse)
	AccountSearch            = op("account.search", "GET", "/search", AccountsRead, "Find accounts by e-mail address, id, last four of a key, or request id", (*Backend).accountSearch)
	AccountSignals           = op("account.signals", "GET", "/accounts/{ref}/signals", AccountsRead, "Show patterns in an account's calls that hint at resale or proxying", (*Backend).accountSignals)
	RequestShow              = op("request.show", "GET", "/requests/{id}", AccountsRead, "Show the way of a request: account, key, route, attempts, times, tokens, outcome", (*Backend).requestShow)
	RequestRefused           = op("request.refused", "GET", "/accounts/{ref}/refused", AccountsRead, "List the last refused calls of an account, and how many there were by hour", (*Backend).requestRefused)
	AccountEvidence          = op("account.evidence", "GET", "/accounts/{ref}/evidence", AccountsRead, "Show the score of the month, and the requests of the last days by hour, model and key", (*Backend).accountEvidence)
	AccountSetPlan           = op("account.set-plan", "POST", "/accounts/{ref}/plan", AccountsWrite, "Grant a plan, without a charge; none takes it away", (*Backend).accountSetPlan)
	AccountSetLimits         = op("account.set-limits", "POST", "/accounts/{ref}/limits", AccountsWrite, "Override the limits of the account's plan", (*Backend).accountSetLimits)
	AccountSetAliases        = op("account.set-aliases", "POST", "/accounts/{ref}/aliases", AccountsWrite, "Change the names that the account may use in place of the ids of models", (*Backend).accountSetAliases)
	AccountSuspend           = op("account.suspend", "POST", "/accounts/{ref}/suspend", AccountsWrite, "Suspend an account: its requests are refused", (*Backend).accountSuspend)
	AccountUnsuspend         = op("account.unsuspend", "POST", "/accounts/{ref}/unsuspend", AccountsWrite, "Lift a suspension", (*Backend).accountUnsuspend)
	AccountTerminate         = op("account.terminate", "POST", "/accounts/{ref}/terminate", AccountsWrite, "End the subscription and suspend the account for good", (*Backend).accountTerminate)
	AccountNote              = op("account.note", "POST", "/accounts/{ref}/notes", AccountsWrite, "Write a note to the audit log", (*Backend).accountNote)
	AccountMessages          = op("account.messages", "GET", "/accounts/{ref}/messages", AccountsRead, "List what an account was told and what its owner answered", (*Backend).accountMessages)
	AccountSessions          = op("account.sessions", "GET", "/accounts/{ref}/sessions", AccountsRead, "List where the owner of an account is signed in", (*Backend).accountSessions)
	AccountSignOut           = op("account.sign-out", "POST", "/accounts/{ref}/sign-out", SignInWrite, "End all sessions and pending links of an account", (*Backend).accountSignOut)
	AccountResetSecondFactor = op("account.reset-second-factor", "POST", "/accounts/{ref}/reset-second-factor", SignInWrite, "Turn two-step sign-in off and remove all passkeys for somebody who has lost them", (*Backend).accountResetFactor)
	AccountSetStaff          = local("account.set-staff", (*Backend).accountSetStaff)
	KeyList                  = op("key.list", "GET", "/accounts/{ref}/keys", AccountsRead, "List the keys of an account", (*Backend).keyList)
	KeyCreate                = op("key.create", "POST", "/accounts/{ref}/keys", KeysWrite, "Create a sub-key; the reply has the key, which is shown only once", (*Backend).keyCreate)
	KeyRename                = op("key.rename", "POST", "/keys/{ref}/name", KeysWrite, "Rename a sub-key", (*Backend).keyRename)
	KeySetLimits             = op("key.set-limits", "POST", "/keys/{ref}/limits", KeysWrite, "Replace the limits of a sub-key, which narrow those of its account", (*Backend).keySetLimits)
	KeyDelete                = op("key.delete", "DELETE", "/keys/{ref}", KeysWrite, "Delete a sub-key; it is refused at once", (*Backend).keyDelete)
	KeyRegenerateMaster      = op("key.regenerate-master", "POST", "/accounts/{ref}/keys/master", KeysWrite, "Replace the master key; the reply has the new one, which is shown only once", (*Backend).keyRegenerateMaster)
	KeyDeactivate            = op("key.deactivate", "POST", "/accounts/{ref}/keys/deactivate", KeysWrite, "Deactivate all keys of an account", (*Backend).keyDeactivate)
	KeyRestore               = op("key.restore", "POST", "/accounts/{ref}/keys/restore", KeysWrite, "Restore deactivated keys and reset the abuse score", (*Backend).keyRestore)
	SignInLinkCreate         = op("signin-link", "POST", "/signin-links", SignInWrite, "Make a link that signs a customer in once", (*Backend).signInLink)
	UsageShow                = op("usage", "GET", "/accounts/{ref}/usage", AccountsRead, "Sum up an account's usage by day, model or key", (*Backend).usage)
	BillingShow              = op("billing.show", "GET", "/accounts/{ref}/billing", BillingRead, "Show an account's subscription, payments and ledger", (*Backend).billingShow)
	BillingAdvance           = op("billing.advance", "POST", "/accounts/{ref}/billing/advance", BillingWrite, "Move an account's clock, in test mode only", (*Backend).billingAdvance)
	BillingDowngrade         = op("billing.downgrade", "POST", "/accounts/{ref}/billing/downgrade", BillingWrite, "Set a lower plan for the next period", (*Backend).billingDowngrade)
	BillingRelease           = op("billing.release", "POST", "/accounts/{ref}/billing/release", BillingWrite, "Let payments of an account be made again", (*Backend).billingRelease)
	BillingRefund            = op("billing.refund", "POST", "/payments/{payment}/refund", BillingWrite, "Refund a payment, or a part of it", (*Backend).billingRefund)
	BillingCredit            = op("billing.credit", "POST", "/accounts/{ref}/billing/credit", BillingWrite, "Change the credit that lowers the next renewals", (*Backend).billingCredit)
	BillingStops             = op("billing.stops", "GET", "/billing/stops", BillingRead, "List accounts whose billing is stopped", (*Backend).billingStops)
	MatterList               = op("matter.list", "GET", "/matters", MattersRead, "List what waits for support, oldest first, or another list of matters", (*Backend).matterList)
	MatterCount              = op("matter.counts", "GET", "/matters/counts", MattersRead, "Count what waits for support, for customers, and what is snoozed", (*Backend).matterCounts)
	MatterOpen               = op("matter.open", "POST", "/accounts/{ref}/matters", MattersWrite, "Write to a customer", (*Backend).matterOpen)
	MatterShow               = op("matter.show", "GET", "/matters/{id}", MattersRead, "Show a matter with its messages", (*Backend).matterShow)
	MatterAnswer             = op("matter.answer", "POST", "/matters/{id}/answer", MattersWrite, "Answer a customer", (*Backend).matterAnswer)
	MatterAssign             = op("matter.assign", "POST", "/matters/{id}/assign", MattersWrite, "Assign a matter to a member of staff, or to nobody", (*Backend).matterAssign)
	MatterSnooze             = op("matter.snooze", "POST", "/matters/{id}/snooze", MattersWrite, "Take a matter out of the queue until a time", (*Backend).matterSnooze)
	MatterClose              = op("matter.close", "POST", "/matters/{id}/close", MattersWrite, "Close a matter", (*Backend).matterClose)
	MatterReopen             = op("matter.reopen", "POST", "/matters/{id}/reopen", MattersWrite, "Put a closed or snoozed matter back into the queue", (*Backend).matterReopen)
	MatterDecide             = op("matter.decide", "POST", "/matters/{id}/decide", MattersWrite, "Clear, warn, restore or suspend the account of a matter, tell the customer, and close it", (*Backend).matterDecide)
	ModelsStanding           = op("models.standing", "GET", "/models", OperationsRead, "List models, where they come from and how healthy they are", (*Backend).modelsStanding)
	ModelsRefresh            = op("models.refresh", "POST", "/models/refresh", OperationsWrite, "Look for models now", (*Backend).modelsRefresh)
	ModelsMoves              = op("models.moves", "GET", "/models/moves", OperationsRead, "List models that staff has moved or will move to another tier", (*Backend).modelsMoves)
	ModelsMove               = op("models.move", "POST", "/models/move", OperationsWrite, "Move a model to another tier, at once or with notice", (*Backend).modelsMove)
	ModelsMoveBack           = op("models.move-back", "POST", "/models/move-back", OperationsWrite, "Give a model its configured tier again", (*Backend).modelsMoveBack)
	RouterFeedback           = op("router.feedback", "GET", "/router/feedback", OperationsRead, "List how far feedback has moved models at each kind of task", (*Backend).routerFeedback)
	RouterForget             = op("router.reset", "POST", "/router/reset", OperationsWrite, "Forget the feedback about a model, or all of it", (*Backend).routerReset)
	UpstreamList             = op("upstream.list", "GET", "/upstreams", OperationsRead, "List the upstreams of the server, their health and their calls", (*Backend).upstreamList)
	UpstreamSeries           = op("upstream.series", "GET", "/upstreams/series", OperationsRead, "List upstreams with their calls in the last three hours, in parts of five minutes", (*Backend).upstreamSeries)
	UpstreamDrains           = op("upstream.drains", "GET", "/upstreams/drains", OperationsRead, "List what is drained", (*Backend).upstreamDrains)
	UpstreamDrain            = op("upstream.drain", "POST", "/upstreams/drain", OperationsWrite, "Send no new calls to an upstream", (*Backend).upstreamDrain)
	UpstreamEnable           = op("upstream.enable", "POST", "/upstreams/enable", OperationsWrite, "Send calls to an upstream again", (*Backend).upstreamEnable)
	MaintenanceList          = op("maintenance.list", "GET", "/maintenance", OperationsRead, "List the maintenance that holds or will", (*Backend).maintenanceList)
	MaintenanceStart         = op("maintenance.start", "POST", "/maintenance", OperationsWrite, "Answer calls of models, or of all, with 503", (*Backend).maintenanceStart)
	MaintenanceEnd           = op("maintenance.end", "DELETE", "/maintenance/{id}", OperationsWrite, "End maintenance", (*Backend).maintenanceEnd)
	AnnouncementList         = op("announcement.list", "GET", "/announcements", OperationsRead, "List the announcements that are shown or will be", (*Backend).announcementList)
	AnnouncementPost         = op("announcement.post", "POST", "/announcements", OperationsWrite, "Show a banner on every page", (*Backend).announcementPost)
	AnnouncementEnd          = op("announcement.end", "DELETE", "/announcements/{id}", OperationsWrite, "Remove an announcement", (*Backend).announcementEnd)
	SteeringHistory          = op("steering.history", "GET", "/steering/history", OperationsRead, "List who drained, moved, closed and announced what, newest first", (*Backend).steeringHistory)
	OverviewShow             = op("overview.show", "GET", "/overview", OperationsRead, "Show what the service does: the last three hours by minute, who loads it, sign-ups, plans and revenue", (*Backend).overviewShow)
	StatusShow               = op("status", "GET", "/status", OperationsRead, "Show the state of the server", (*Backend).showStatus)
	ConfigReload             = op("reload", "POST", "/reload", OperationsWrite, "Apply the configuration file again", (*Backend).applyConfig)
	AlertList                = op("alert.list", "GET", "/alerts", OperationsRead, "List what the operator was told, newest first", (*Backend).alertList)
	AlertEndpoints           = op("alert.endpoints", "GET", "/alerts/endpoints", OperationsRead, "List the operator's endpoints for alerts", (*Backend).alertEndpoints)
	AlertTest                = op("alert.test", "POST", "/alerts/test", OperationsWrite, "Send a test to all endpoints of the operator", (*Backend).alertTest)
	AlertDeliveries          = op("alert.deliveries", "GET", "/alerts/deliveries", OperationsRead, "List deliveries to the operator or to an account, newest first", (*Backend).alertDeliveries)
	AlertShow                = op("alert.show", "GET", "/alerts/deliveries/{ref}", OperationsRead, "Show a delivery with its body", (*Backend).alertShow)
	AlertReplay              = op("alert.replay", "POST", "/alerts/deliveries/{ref}/replay", OperationsWrite, "Send a delivery again that has ended, under its id", (*Backend).alertReplay)
	TokenCreate              = op("staff.token-create", "", "", TokensWrite, "", (*Backend).tokenCreate)
	TokenList                = op("staff.token-list", "", "", TokensWrite, "", (*Backend).tokenList)
	TokenDelete              = op("staff.token-delete", "", "", TokensWrite, "", (*Backend).tokenDelete)
	ModelsJSON               = local("models", (*Backend).models)
	AuditRun                 = local("audit", (*Backend).audit)
	JournalParts             = local("journal.parts", (*Backend).journalParts)
	JournalRead              = local("journal.read", (*Backend).journalRead)
	JournalDamage            = local("journal.damage", (*Backend).journalDamage)
	JournalAcknowledge       = local("journal.acknowledge", (*Backend).journalAcknowledge)
	DebugShow                = local("debug", (*Backend).debug)
	ServerExamine            = local("examine", (*Backend).examine)
)
