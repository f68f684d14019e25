package dashboard

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/web/webui"
)

// logShown is how many entries a page of the account log has. The export has all of them.
const logShown = 50

// logView is the data of the account log.
type logView struct {
	Entries []logEntry
	// Next is the number to continue after, or 0 at the end. Later reports that this is not the first page.
	Next  int64
	Later bool
}

// logPage shows who changed what about the account, newest first.
func (d *Dashboard) logPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	before, err := strconv.ParseInt(r.FormValue("before"), 10, 64)
	if err != nil || before < 0 {
		before = 0 // the first page
	}
	list, err := d.Accounts.History(r.Context(), v.ID, before, logShown+1)
	if err != nil {
		return err
	}
	view := logView{Later: before != 0}
	if len(list) > logShown {
		list = list[:logShown]
		view.Next = list[logShown-1].Seq
	}
	names, err := d.logNames(r.Context(), v)
	if err != nil {
		return err
	}
	for i := range list {
		if !slices.Contains(ownToSupport, list[i].Action) {
			view.Entries = append(view.Entries, names.entry(&list[i]))
		}
	}
	return d.ui.Render(w, r, http.StatusOK, logPage(d.frame(w, r, v, "Account log"), view))
}

// ownToSupport are what support does for itself.
var ownToSupport = []string{"account.note", "matter.assign", "matter.snooze"}

// actions are what entries of the log are about, in the words of the page.
var actions = map[string]string{
	"account.create": "The account was created", "account.set_plan": "The plan was set", "account.set_limits": "Limits were set", "account.clear_limits": "Limits were returned to those of the plan",
	"account.set_aliases": "Aliases of models were changed", "account.set_replies": "What replies say, whether requests leave receipts, or how prompts are cached, was changed", "account.suspend": "The account was suspended", "account.unsuspend": "The suspension was lifted", "account.set_email": "The e-mail address was changed",
	"account.close": "The account was closed", "keys.deactivate": "All keys were switched off", "keys.restore": "All keys were restored", "key.create": "A key was created", "key.rename": "A key was renamed",
	"key.set_limits": "Limits of a key were changed", "key.delete": "A key was deleted", "key.regenerate_master": "The master key was regenerated",
	"budget.create": "A budget was created", "budget.change": "A budget was changed", "budget.delete": "A budget was deleted",
	"budget.raise": "The budget of a session was raised", "budget.watch": "The runaway watch was changed",
	"matter.open": "A conversation with support was started", "matter.answer": "Support answered a message", "matter.close": "A conversation with support was closed", "matter.reopen": "A conversation with support was opened again",
	"matter.clear": "A review ended without a finding", "matter.warn": "A warning was given", "matter.restore": "Support restored all keys", "matter.suspend": "Support suspended the account",
	"billing.started": "A subscription began", "billing.upgraded": "The plan was upgraded", "billing.renewed": "The subscription was renewed", "billing.ended": "The subscription ended", "billing.lapsed": "The subscription ended without a payment",
	"billing.cancel_planned": "A cancellation was planned", "billing.cancel_taken_back": "A cancellation was taken back", "billing.downgrade_planned": "A lower plan was planned", "billing.downgrade_taken_back": "A lower plan was taken back", "billing.refund": "A payment was refunded", "billing.credit": "A credit was given",
	"webhook.create": "A webhook was created", "webhook.delete": "A webhook was deleted",
	"key.pause": "A key was paused: its program seems to run away", "key.resume": "A key was resumed",
	"passkey.add": "A passkey was added", "passkey.remove": "A passkey was removed", "passkey.refused": "A passkey was refused: its counter went back", "session.prove": "You confirmed your identity", "totp.on": "The authenticator app was turned on", "totp.off": "The authenticator app was turned off",
}

// actionText returns what an entry is about. An action that has no words here is shown as it is.
func actionText(action string) string {
	if text := actions[action]; text != "" {
		return text
	}
	return webui.Sentence(strings.NewReplacer(".", ": ", "_", " ").Replace(action))
}

// doneBy returns who did something, in the words of the account's owner.
func doneBy(by string) string {
	switch {
	case by == actor:
		return "you"
	case strings.HasPrefix(by, "staff:"):
		return "support"
	case strings.HasPrefix(by, "cli:"):
		return "the operator"
	case strings.HasPrefix(by, "api:"):
		return "a program with your master key"
	}
	return by
}
