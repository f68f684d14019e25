package moving_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/app/moving"
)

var today = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

// planText returns a plan in short: an account on each line, with its keys and their limits.
func planText(t *testing.T, o moving.KeyOptions, files ...string) (string, *moving.KeyPlan) {
	t.Helper()
	o.Now = today
	var tables []moving.File
	for i, text := range files {
		tables = append(tables, moving.File{Name: fmt.Sprintf("table-%d", i), Text: []byte(text)})
	}
	plan, err := moving.Keys(tables, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, h := range plan.Holders {
		limits, _ := json.Marshal(h.Limits)
		fmt.Fprintf(&b, "%s %s%s\n", h.Email, limits, budgetsText(h.Budgets))
		for _, k := range h.Keys {
			limits, _ := json.Marshal(&k.Limits)
			fmt.Fprintf(&b, "  %s %s%s\n", k.Name, limits, budgetsText(k.Budgets))
		}
	}
	for _, e := range plan.Report.Entries {
		if e.Text == "" || strings.Contains(e.Text, secretWord) {
			t.Errorf("%s: the report says %q", e.Path, e.Text)
		}
	}
	return b.String(), plan
}

func budgetsText(all []moving.Budget) (text string) {
	for _, b := range all {
		text += ", " + b.String()
	}
	return text
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     moving.KeyOptions
		files []string
		want  string
	}{
		{"a team and its models", moving.KeyOptions{Domain: "example.com"}, []string{
			`[{"token": "hush", "key_alias": "ci", "models": [], "team_id": "t1", "tpm_limit": 500}, {"token": "hush", "key_alias": "CI", "models": ["all-proxy-models"], "team_id": "t1"}]`,
			"team_id,team_alias,models,rpm_limit,max_parallel_requests\nt1,Data & ML,\"{b,a}\",100,5\n",
		}, "data-ml@example.com {\"requests_per_minute\":100,\"concurrent\":5}\n  ci {\"tokens_per_minute\":500,\"models\":[\"a\",\"b\"]}\n  CI 2 {}\n"},
		{"budgets of keys", moving.KeyOptions{}, []string{
			`{"keys": [{"token": "hush", "key_alias": "week", "user_id": "ana@example.com", "max_budget": 7, "soft_budget": "3.5", "budget_duration": "7d", "spend": 5},
				{"token": "hush", "key_alias": "ever", "user_id": "ana@example.com", "max_budget": 7, "spend": 1.25},
				{"token": "hush", "key_alias": "used up", "user_id": "ana@example.com", "max_budget": 7, "spend": 8},
				{"token": "hush", "key_alias": "hour", "user_id": "ana@example.com", "max_budget": 2, "budget_duration": "1h"},
				{"token": "hush", "key_alias": "month", "user_id": "ana@example.com", "max_budget": 2, "budget_duration": "1mo"},
				{"token": "hush", "key_alias": "quarter", "user_id": "ana@example.com", "max_budget": 90, "budget_duration": "90d"},
				{"token": "hush", "key_alias": "three days", "user_id": "ana@example.com", "max_budget": 3, "budget_duration": "3d"},
				{"token": "hush", "key_alias": "huge", "user_id": "ana@example.com", "max_budget": 1e12}]}`,
		}, "ana@example.com {}\n  week {}, $7.00 a week, $3.50 a week (warns)\n  ever {}, $5.75 in all\n  used up {}, $0.00 in all\n  hour {}, $2.00 a day\n  month {}, $2.00 a month\n" +
			"  quarter {}, $30.00 a month\n  three days {}, $1.00 a day\n  huge {}, $1000000.00 in all\n"},
		{"budgets of a team and of a table of budgets", moving.KeyOptions{Domain: "example.com"}, []string{
			`[{"token": "hush", "key_alias": "k", "team_id": "t1", "budget_id": "b1"}]`, "team_id,team_alias,max_budget,budget_duration\nt1,Data,50,30d\n", "budget_id,max_budget,budget_duration\nb1,2,24h\n",
		}, "data@example.com {}, $50.00 a month\n  k {}, $2.00 a day\n"},
		{"limits that a key cannot have make no key", moving.KeyOptions{}, []string{
			`[{"token": "hush", "key_alias": "k", "user_id": "ana@example.com", "models": ["openai/*", "a"]}, {"token": "hush", "key_alias": "l", "user_id": "ana@example.com", "models": ["no-default-models"]}]`,
		}, ""},
		{"tokens of new-api", moving.KeyOptions{Domain: "example.org"}, []string{
			`{"success": true, "data": {"items": [
				{"id": 1, "user_id": 1, "key": "hush4567890123456789abcd", "status": 1, "name": "app", "expired_time": -1, "remain_quota": 250000, "unlimited_quota": false, "model_limits_enabled": true, "model_limits": "b,a,a", "allow_ips": "10.0.0.0/8\n192.0.2.7"},
				{"id": 2, "user_id": 2, "key": "hush", "status": 1, "name": "", "expired_time": 4102444800, "remain_quota": 0, "unlimited_quota": true, "model_limits": "a"},
				{"id": 3, "user_id": 2, "key": "hush", "status": 2, "name": "off", "expired_time": -1, "remain_quota": 0},
				{"id": 4, "user_id": 2, "key": "hush", "status": 1, "name": "odd", "expired_time": -1, "remain_quota": 0, "allow_ips": "office"},
				{"id": 5, "user_id": 2, "key": "hush", "status": 1, "name": "past", "expired_time": 5, "remain_quota": 0}]}}`,
			`[{"id": 1, "username": "root", "email": "Root@Example.com", "quota": 1500000, "status": 1, "password": "hush"}, {"id": 2, "username": "Bo B", "email": "", "status": 1}]`,
		}, "root@example.com {}, $3.00 in all\n  app {\"models\":[\"a\",\"b\"],\"addresses\":[\"10.0.0.0/8\",\"192.0.2.7/32\"]}, $0.50 in all\nbo-b@example.org {}\n  token {\"expires_at\":\"2100-01-01T00:00:00Z\"}\n"},
	} {
		if got, _ := planText(t, c.o, c.files...); got != c.want {
			t.Errorf("%s: Keys =\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestManyKeys checks that an account that would have too many keys becomes several.
func TestManyKeys(t *testing.T) {
	text := "token,key_alias,user_id\n"
	for i := range 23 {
		text += fmt.Sprintf("hush,k%d,ana@example.com\n", i)
	}
	got, plan := planText(t, moving.KeyOptions{}, text)
	if len(plan.Holders) != 3 || plan.Count() != 23 || plan.Holders[2].Email != "ana+3@example.com" || len(plan.Holders[2].Keys) != 3 {
		t.Errorf("23 keys of one person =\n%s\nwant 3 accounts with 10, 10 and 3 keys", got)
	}
	if plan.Report.Counts[moving.Missing] != 1 {
		t.Errorf("the report does not tell that the account was divided")
	}
}

// TestNoAddress checks that keys of a team without an address are not lost silently.
func TestNoAddress(t *testing.T) {
	got, plan := planText(t, moving.KeyOptions{}, `[{"token": "hush", "key_alias": "k", "team_id": "t1"}, {"token": "hush", "key_alias": "free"}]`)
	if got != "" || plan.Report.Counts[moving.Missing] != 1 || !strings.Contains(fmt.Sprint(plan.Report.Entries), "2 teams or people have keys but no e-mail address") {
		t.Errorf("Keys = %q with %v, want no account and one line that asks for --domain", got, plan.Report.Counts)
	}
}

func TestKeyRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, from, want string }{
		{"empty", "", "", "is empty"},
		{"one column", "token\nx\n", "", "neither a JSON list nor CSV"},
		{"another table", "a,b\n1,2\n", "", "no file is a table of keys that is known here"},
		{"ragged", "token,key_alias\nhush\n", "", "row 1 cannot be read"},
		{"gateway", `[{"token": "hush", "key_name": "x"}]`, "portkey", `keys of "portkey" cannot be converted; only those of litellm, new-api, one-api`},
		{"large", "token,key_alias\n" + strings.Repeat("aaaaaaaaaaaaaaaa,b\n", 70_000), "", "larger than 1 MiB"},
	} {
		_, err := moving.Keys([]moving.File{{Name: "in", Text: []byte(c.text)}}, moving.KeyOptions{From: c.from, Now: today})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secretWord) {
			t.Errorf("Keys(%s) = %v, want an error with %q", c.name, err, c.want)
		}
	}
}
