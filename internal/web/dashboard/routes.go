package dashboard

import (
	"context"
	"net/http"
	"strings"

	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.977 generate -include-version=false

// home is the path of the overview. All other pages for signed-in visitors are below it.
const home = webui.CustomerHome

// Patterns returns the mux patterns of all paths that belong to the pages. The API's mux sends
// them to Handler.
func Patterns() []string {
	return []string{
		"/signin", "/signin/{step...}", "/signup", "/signout", "/reset", "/link/{purpose}",
		home, home + "/{page...}", "/assets/{name}", sharedPath + "/{token}",
	}
}

// Handler returns the handler of all Patterns. Every route goes through webui.Protect, which
// refuses forms of other sites.
func (d *Dashboard) Handler() http.Handler {
	mux := http.NewServeMux()
	d.route(mux.Handle)
	return d.ui.Protect(mux)
}

// Routes returns the patterns of all routes, for a test that tries each of them.
func Routes() (list []string) {
	new(Dashboard).route(func(pattern string, _ http.Handler) { list = append(list, pattern) })
	return list
}

// route calls handle with every route.
func (d *Dashboard) route(handle func(pattern string, h http.Handler)) {
	// Routes registered with open are for everyone; private ones need a session.
	open := func(pattern string, h webui.Handler) { handle(pattern, d.ui.Handle(h)) }
	gets, posts := map[string]bool{}, map[string]bool{}
	private := func(pattern string, p page) {
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodPost {
			p = d.counted(p, strings.HasPrefix(path, home+"/plan/"))
		}
		map[string]map[string]bool{"GET": gets, "POST": posts}[method][path] = true
		open(pattern, d.private(p))
	}

	// Sign-in, sign-up and the links in mails.
	show, post := d.mailForm("/signup", "Sign up", signUpPage, func(ctx context.Context, f entryForm, v signin.Visit) error {
		return d.Logins.SignUp(ctx, f.Email, chosen(f.Plan), v)
	})
	open("GET /signup", show)
	open("POST /signup", post)
	open("GET /signin", d.showSignIn)
	open("POST /signin", d.signIn)
	open("GET /signin/code", d.showCode)
	open("POST /signin/code", d.finishSignIn)
	open("POST /signin/code/ask", d.askFinish)
	open("POST /signin/passkey", d.signInPasskey)
	open("POST /signin/passkey/ask", d.askEnter)
	open("GET /signin/passkey", d.showSignIn)
	open("GET /signin/provider", d.beginProvider)
	open("GET /signin/provider/back", d.endProvider)
	open("POST /signout", d.signOut)
	show, post = d.mailForm("/reset", "Reset password", resetPage, func(ctx context.Context, f entryForm, v signin.Visit) error {
		return d.Logins.RequestReset(ctx, f.Email, v)
	})
	open("GET /reset", show)
	open("POST /reset", post)
	open("GET /link/{purpose}", d.showLink)
	open("POST /link/{purpose}", d.useLink)
	handle("GET /assets/{name}", http.HandlerFunc(webui.ServeAsset))

	// The pages, by noun.
	private("GET "+home, d.overviewPage)
	private("GET "+welcomePath, d.welcomePage)
	private("GET "+home+"/minute", d.minute)
	private("GET "+home+"/start", d.start)
	private("GET "+findPath, d.find)
	private("POST "+home+"/start/key", d.makeFirstKey)
	private("GET "+home+"/keys", d.keysPage)
	private("POST "+home+"/keys", d.createKey)
	private("POST "+home+"/keys/master", d.regenerateMaster)
	private("POST "+home+"/keys/{id}", d.changeKey)
	private("POST "+home+"/keys/{id}/delete", d.deleteKey)
	private("GET "+home+"/activity", d.activityPage)
	private("GET "+home+"/activity.csv", d.alone(d.exportCSV))
	private("GET "+home+"/activity.json", d.alone(d.exportJSON))
	private("GET "+home+"/activity/days.csv", d.alone(d.exportDays))
	private("GET "+home+"/activity/requests", d.requestList)
	private("GET "+home+"/activity/tail", d.tail)
	private("GET "+home+"/activity/requests/{id}", d.requestPage)
	private("GET "+home+"/usage", d.oldUsage)
	private("GET "+home+"/usage.csv", d.oldUsage)
	private("GET "+home+"/activity/routing", d.routingPage)
	private("GET "+home+"/activity/whatif", d.whatIfPage)
	private("GET "+costsPath, d.costsPage)
	private("GET "+cachesPath, d.cachesPage)
	private("GET "+costsPath+".csv", d.alone(d.exportCosts))
	private("GET "+budgetsPath, d.budgetsPage)
	private("POST "+budgetsPath, d.createBudget)
	private("GET "+raisePath, d.raisePage)
	private("POST "+raisePath, d.raise)
	private("POST "+budgetsPath+"/watch", d.watchBudgets)
	private("POST "+budgetsPath+"/resume", d.resumeKey)
	private("POST "+budgetsPath+"/{id}", d.changeBudget)
	private("POST "+budgetsPath+"/{id}/delete", d.deleteBudget)
	private("GET "+sessionsPath, d.sessionsPage)
	private("GET "+sessionsPath+"/{id}", d.sessionPage)
	private("GET "+home+"/models", d.modelsPage)
	private("GET "+home+"/models/compare", d.comparePage)
	private("GET "+home+"/models/{id...}", d.modelPage)
	private("GET "+playgroundPath, d.playgroundPage)
	private("GET "+sharesPath, d.sharesPage)
	private("POST "+sharesPath+"/{token}/delete", d.deleteShare)
	// The body is a conversation, which is larger than a form.
	handle("POST "+sharesPath, d.ui.HandleUnread(d.private(d.counted(d.createShare, false))))
	open("GET "+sharedPath+"/{token}", d.sharedPage)
	private("GET "+home+"/videos", d.videosPage)
	// The body is left to the API, which reads it and counts it against the account.
	handle(home+"/v1/{path...}", d.ui.HandleUnread(d.serveAPI))
	private("GET "+home+"/plan", d.planPage)
	private("POST "+home+"/plan/subscribe", d.subscribe)
	private("GET "+home+"/plan/upgrade", d.showUpgrade)
	private("POST "+home+"/plan/upgrade", d.upgrade)
	private("POST "+home+"/plan/cancel", d.planForm("cancelled", (*billing.Billing).CancelAtPeriodEnd))
	private("POST "+home+"/plan/resume", d.planForm("resumed", (*billing.Billing).Resume))
	private("POST "+home+"/plan/overdue", d.payOverdue)
	private("POST "+home+"/plan/method", d.changeMethod)
	private("POST "+home+"/plan/downgrade", d.askDowngrade)
	private("POST "+home+"/plan/downgrade/withdraw", d.withdrawDowngrade)
	private("POST "+home+"/plan/keep", d.planForm("plan-kept", (*billing.Billing).KeepPlan))
	private("GET "+home+"/plan/invoices/{file}", d.invoiceFile)
	private("GET "+CheckoutPath, d.checkout)
	private("POST "+CheckoutPath, d.payTest)
	private("GET "+CardPath, d.testCard)
	private("POST "+CardPath, d.saveTestCard)
	private("GET "+home+"/messages", d.messagesPage)
	private("POST "+home+"/messages", d.beginTicket)
	private("GET "+home+"/messages/new", d.newTicketPage)
	private("POST "+home+"/messages/read", d.readMessages)
	private("GET "+home+"/messages/{id}", d.messagePage)
	private("POST "+home+"/messages/{id}/answer", d.replyToTicket)
	private("POST "+home+"/messages/{id}/resolve", d.resolveTicket)
	private("GET "+home+"/webhooks", d.webhooksPage)
	private("POST "+home+"/webhooks", d.createWebhook)
	private("POST "+home+"/webhooks/mail", d.setVideoMail)
	private("POST "+home+"/webhooks/{id}/test", d.hookForm("webhook-tested", func(ctx context.Context, accountID, id string) error {
		_, err := d.Hooks.Test(ctx, accountID, id)
		return err
	}))
	private("POST "+home+"/webhooks/{id}/resume", d.hookForm("webhook-resumed", d.Hooks.Resume))
	private("POST "+home+"/webhooks/{id}/delete", d.hookForm("webhook-deleted", func(ctx context.Context, accountID, id string) error {
		return d.Hooks.Delete(ctx, actor, accountID, id)
	}))
	private("POST "+home+"/webhooks/deliveries/{id}/replay", d.hookForm("webhook-replayed", d.Hooks.Replay))
	private("GET "+home+"/account", d.accountPage)
	private("GET "+home+"/account.json", d.alone(d.exportAccount))
	private("POST "+home+"/account/email", d.changeEmail)
	private("POST "+accountPath+"/details", d.saveDetails)
	private("POST "+home+"/account/password", d.changePassword)
	private("POST "+home+"/account/replies", d.changeReplies)
	private("POST "+home+"/account/totp/enrol", d.enrolTOTP)
	private("POST "+home+"/account/totp", d.activateTOTP)
	private("POST "+home+"/account/totp/remove", d.removeTOTP)
	private("POST "+home+"/account/totp/recovery", d.makeRecovery)
	private("POST "+home+"/account/passkeys", d.addPasskey)
	private("POST "+home+"/account/passkeys/ask", d.askPasskey)
	private("POST "+home+"/account/passkeys/prove", d.askProof)
	private("POST "+home+"/account/passkeys/remove", d.removePasskey)
	private("GET "+home+"/account/log", d.logPage)
	private("POST "+home+"/account/sessions/close", d.closeOtherSessions)
	private("POST "+home+"/account/sessions/{id}/close", d.closeSession)
	private("POST "+home+"/account/close", d.closeAccount)

	// The address of a form leads to its page.
	for path := range posts {
		if !gets[path] {
			open("GET "+path, d.private(d.backToPage))
		}
	}
	open("GET /signout", func(w http.ResponseWriter, r *http.Request) error { return d.seeOther(w, r, home, "") })

	// The catch-all renders a page of our own instead of net/http's plain text.
	open("/", func(_ http.ResponseWriter, _ *http.Request) error {
		return fault.New(fault.NotFound, "There is no page at this address. It may have moved, or the address has a typo.")
	})
}
