package moving

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/account"
)

// likeTokens reports whether a row is one of the table tokens of new-api or one-api.
func likeTokens(row *value) bool {
	return row.get("remain_quota") != nil && (row.get("expired_time") != nil || row.get("unlimited_quota") != nil)
}

// readTokens reads the tables tokens and users.
func readTokens(r *keyReader, tables []*value) error {
	users := map[string]*value{}
	var tokens []*value
	for _, t := range tables {
		for _, row := range rows(t) {
			if likeTokens(row) {
				tokens = append(tokens, row)
			} else if row.get("username") != nil {
				users[row.get("id").String()] = row
			}
		}
	}
	for _, row := range tokens {
		r.readToken(row, users[row.get("user_id").String()])
	}
	return nil
}

// readToken reads one row of tokens.
func (r *keyReader) readToken(row, user *value) {
	expires, timed := when(row.get("expired_time"))
	switch {
	case row.get("status").given() && row.get("status").whole() != 1, row.get("DeletedAt").given(), row.get("deleted_at").given():
		row.dropped("the token is switched off, so no key is created")
		return
	case user.get("status").given() && user.get("status").whole() != 1:
		row.dropped("the user is switched off, so no key is created")
		return
	case timed && !expires.After(r.options.Now):
		row.dropped("the token has expired, so no key is created")
		return
	}
	limits, ok := narrow(row)
	if !ok {
		row.dropped("the token is limited to more than 50 models, or to what is not a list of addresses; create the key by hand: sluice key create")
		return
	}
	id := row.get("user_id").String()
	name := cmp.Or(user.get("username").String(), "user-"+id)
	h := r.holder("user "+id, user.get("email").String(), name)
	row.get("user_id").changed("the user is an account: " + cmp.Or(h.Email, "the e-mail address is missing"))
	user.get("email").taken("the e-mail address of the account")
	user.get("username").changed("the e-mail address of the account, if there is no other")
	user.get("id").changed("the user is an account")
	user.get("status").taken("the user is active")
	planned := PlannedKey{Name: cmp.Or(row.get("name").String(), "token"), Old: lastFour(row.get("key").String()), Limits: limits}
	if timed {
		planned.Limits.ExpiresAt = expires
	}
	row.get("expired_time").taken("the key expires then, or never")
	if !row.get("unlimited_quota").yes() && row.get("unlimited_quota").String() != "t" {
		planned.Budgets = quota(row.get("remain_quota"))
	}
	if h.Budgets == nil {
		h.Budgets = quota(user.get("quota"))
	}
	h.add(planned)
	row.get("name").taken("name of the key")
	row.get("status").taken("the key is in use")
}

// lastFour returns the end of a key, by which people recognize it.
func lastFour(key string) string {
	if len(key) < 16 {
		return ""
	}
	return "…" + key[len(key)-4:]
}

// narrow reads the models and addresses that a token is limited to. It reports false if a key here cannot be limited like
// that: it must never be able to do more.
func narrow(row *value) (l account.KeyLimits, ok bool) {
	models := row.get("models")
	if row.get("model_limits_enabled").set() && row.get("model_limits_enabled").String() != "f" {
		models = row.get("model_limits")
	}
	list := names(models)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > account.MaxKeyEntries {
		return l, false
	}
	for _, name := range list {
		l.Models = append(l.Models, modelID(name))
	}
	for _, key := range []string{"allow_ips", "subnet"} {
		v := row.get(key)
		addresses, err := account.ParseAddresses(strings.Join(names(v), " "))
		if l.Addresses = append(l.Addresses, addresses...); err != nil || len(l.Addresses) > account.MaxKeyEntries {
			return l, false
		}
		v.taken("addresses of the key")
	}
	models.taken("models of the key")
	row.get("model_limits_enabled").taken("models of the key")
	return l, true
}

var tokenAdvice = []advice{
	{"", "this table has no counterpart"},
	{"[]", "this column has no counterpart"},
	{"[].id", "keys and accounts get ids of their own"},
	{"[].key", "the key is replaced, see the file of new keys: keys here have more random bits and a checksum"},
	{"[].remain_quota", "the quota is unlimited"},
	{"[].unlimited_quota", "a key without a budget is not limited"},
	{"[].used_quota", "usage of the old gateway is not converted; keep its database for reports"},
	{"[].quota", "a person without keys gets no account"},
	{"[].request_count", "usage of the old gateway is not converted; keep its database for reports"},
	{"[].group", noTags},
	{"[].created_time", "it is only a date"},
	{"[].accessed_time", "it is only a date"},
	{"[].password", "passwords are not taken; people sign in by mail and choose a new one"},
	{"[].access_token", "it is not taken; make a staff token with sluice token create"},
	{"[].role", "members of staff are made by hand: sluice account set-staff"},
	{"[].display_name", "accounts have no display name"},
	{"[].email", "a person without keys gets no account"},
	{"[].username", "a person without keys gets no account"},
	{"[].aff_code", "there are no referrals"},
	{"[].aff_quota", "there are no referrals"},
	{"[].github_id", noSSO},
	{"[].oidc_id", noSSO},
	{"[].model_limits", "the list is switched off in the source"},
}
