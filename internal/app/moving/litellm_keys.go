package moving

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/account"
)

// likeLiteLLMKeys reports whether a row is one of LiteLLM_VerificationToken.
func likeLiteLLMKeys(row *value) bool {
	return row.get("token") != nil && (row.get("key_alias") != nil || row.get("key_name") != nil)
}

// liteLLMKeys reads the tables of LiteLLM.
type liteLLMKeys struct {
	*keyReader
	users, teams, budgets map[string]*value
}

func readLiteLLMKeys(r *keyReader, tables []*value) error {
	k := &liteLLMKeys{r, map[string]*value{}, map[string]*value{}, map[string]*value{}}
	var keys []*value
	for _, t := range tables {
		for _, row := range rows(t) {
			switch {
			case likeLiteLLMKeys(row):
				keys = append(keys, row)
			case row.get("user_id") != nil && (row.get("user_email") != nil || row.get("user_role") != nil):
				k.users[row.get("user_id").String()] = row
			case row.get("team_id") != nil && (row.get("team_alias") != nil || row.get("members_with_roles") != nil):
				k.teams[row.get("team_id").String()] = row
			case row.get("budget_id") != nil:
				k.budgets[row.get("budget_id").String()] = row
			}
		}
	}
	for _, row := range keys {
		k.readKey(row)
	}
	return nil
}

// readKey reads one row of LiteLLM_VerificationToken.
func (k *liteLLMKeys) readKey(row *value) {
	expires, timed := when(row.get("expires"))
	models, ok := k.models(row)
	switch {
	case row.get("blocked").yes() || row.get("blocked").String() == "t":
		row.dropped("the key is blocked, so none is created")
		return
	case timed && !expires.After(k.options.Now):
		row.dropped("the key has expired, so none is created")
		return
	case !ok:
		row.dropped("the key is limited to patterns of models or to more than 50, which a key here cannot be; create it by hand, with the ids: sluice key create")
		return
	}
	h := k.owner(row)
	budget := k.budgets[row.get("budget_id").String()]
	pick := func(key string) *value { // what the key says, or its budget
		if v := row.get(key); v.given() {
			return v
		}
		return budget.get(key)
	}
	planned := PlannedKey{Name: cmp.Or(row.get("key_alias").String(), row.get("key_name").String(), "key"), Old: row.get("key_name").String()}
	planned.Limits.RequestsPerMinute = limit(pick("rpm_limit"), "requests per minute of the key")
	planned.Limits.TokensPerMinute = limit(pick("tpm_limit"), "tokens per minute of the key")
	planned.Budgets = liteLLMBudgets(pick)
	planned.Limits.Models = models
	if timed {
		planned.Limits.ExpiresAt = expires
		row.get("expires").taken("the key expires then")
	}
	h.add(planned)
	for key, to := range map[string]string{"key_alias": "name of the key", "key_name": "the file of new keys names the old ones by it", "budget_id": "limits of the key", "blocked": "the key is in use"} {
		row.get(key).taken(to)
	}
	budget.get("budget_id").taken("limits of the keys that name it")
}

// owner returns the account of a key: that of its team or else of its user.
func (k *liteLLMKeys) owner(row *value) (h *Holder) {
	teamID, userID := row.get("team_id").String(), row.get("user_id").String()
	team, user := k.teams[teamID], k.users[userID]
	switch {
	case teamID != "":
		h = k.holder("team "+teamID, "", cmp.Or(team.get("team_alias").String(), teamID))
		row.get("team_id").changed("the team is an account: " + cmp.Or(h.Email, "its e-mail address is missing"))
		row.get("user_id").dropped("the key belongs to the account of its team")
		k.accountLimits(h, team)
		team.get("team_id").changed("the team is an account")
		team.get("team_alias").changed("the e-mail address of the account")
	case userID != "":
		h = k.holder("user "+userID, cmp.Or(user.get("user_email").String(), userID), cmp.Or(user.get("user_alias").String(), userID))
		row.get("user_id").changed("the user is an account: " + cmp.Or(h.Email, "the e-mail address is missing"))
		k.accountLimits(h, user)
		user.get("user_id").changed("the user is an account")
		user.get("user_email").taken("the e-mail address of the account")
		user.get("user_alias").changed("the e-mail address of the account, if there is no other")
	default:
		h = k.holder("nobody", "", "keys")
	}
	return h
}

// accountLimits reads the limits of a team or a user. What the old gateway does not limit is not limited here either.
func (k *liteLLMKeys) accountLimits(h *Holder, row *value) {
	for key, to := range map[string]**account.Limit{
		"rpm_limit": &h.Limits.RequestsPerMinute, "tpm_limit": &h.Limits.TokensPerMinute, "max_parallel_requests": &h.Limits.Concurrent,
	} {
		if n := limit(row.get(key), "limit of the account"); n != nil {
			*to = n
		}
	}
	if h.Budgets == nil {
		h.Budgets = liteLLMBudgets(row.get)
	}
}

// models returns the models of a key, or those of its team; none means all. It reports false if the key is limited in a way
// that has no counterpart: a key must never be able to do more here.
func (k *liteLLMKeys) models(row *value) (ids []string, ok bool) {
	team := k.teams[row.get("team_id").String()]
	special := []string{"all-proxy-models", "all-team-models", "no-default-models"}
	list := names(row.get("models"))
	if len(list) == 0 || slices.Contains(list, "all-team-models") {
		list = append(list, names(team.get("models"))...)
		team.get("models").taken("models of the keys of the team")
	}
	if slices.Contains(list, "all-proxy-models") {
		row.get("models").taken("the key may call all models")
		return nil, true
	}
	for _, name := range list {
		if strings.Contains(name, "*") {
			return nil, false
		}
		if !slices.Contains(special, name) {
			ids = append(ids, modelID(name))
		}
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > account.MaxKeyEntries || len(ids) == 0 && slices.Contains(list, "no-default-models") {
		return nil, false
	}
	row.get("models").taken("models of the key")
	return ids, true
}

var liteLLMKeyAdvice = []advice{
	{"", "this table has no counterpart"},
	{"[]", "this column has no counterpart"},
	{"[].token", "keys are stored as hashes, and a hash does not show whether its key can be guessed; the key is replaced, see the file of new keys"},
	{"[].spend", "usage of the old gateway is not converted; keep its database for reports"},
	{"[].model_spend", "usage of the old gateway is not converted; keep its database for reports"},
	{"[].max_budget", "the duration of the budget is none that is known here; make it by hand: sluice budget set"},
	{"[].soft_budget", "the duration of the budget is none that is known here; make it by hand: sluice budget set"},
	{"[].budget_duration", "there is no budget, or its duration is none that is known here"},
	{"[].budget_reset_at", "days, weeks and months of budgets begin at midnight (UTC)"},
	{"[].model_max_budget", "budgets for single models have no counterpart; limit a key to models"},
	{"[].max_parallel_requests", "a key has no limit of its own on concurrent calls; set that of the account"},
	{"[].aliases", "give the account aliases: sluice account aliases"},
	{"[].metadata", "keys have no metadata"},
	{"[].permissions", "keys have no permissions beside their limits"},
	{"[].config", "keys have no configuration of their own"},
	{"[].router_settings", "keys have no configuration of their own"},
	{"[].allowed_routes", "keys may call all routes"},
	{"[].allowed_cache_controls", noCache},
	{"[].password", "passwords are not taken; people sign in by mail and choose a new one"},
	{"[].sso_user_id", noSSO},
	{"[].user_role", "members of staff are made by hand: sluice account set-staff"},
	{"[].organization_id", "there are no organizations above accounts"},
	{"[].members_with_roles", "an account has one e-mail address; people who need keys of their own get accounts of their own"},
	{"[].members", "an account has one e-mail address; people who need keys of their own get accounts of their own"},
	{"[].admins", "an account has one e-mail address; people who need keys of their own get accounts of their own"},
	{"[].teams", "a person without keys of their own gets no account"},
	{"[].user_email", "a person without keys of their own gets no account"},
	{"[].user_id", "a person without keys of their own gets no account"},
	{"[].team_id", "a team without keys gets no account"},
	{"[].team_alias", "a team without keys gets no account"},
	{"[].models", "models of a user have no counterpart; limit the keys"},
	{"[].created_at", "it is only a date"},
	{"[].updated_at", "it is only a date"},
	{"[].last_active", "it is only a date"},
	{"[].auto_rotate", "keys are not replaced by themselves; set an expiry"},
	{"[].rotation_interval", "keys are not replaced by themselves; set an expiry"},
}
