package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account/billing/stripe"
	"sluice/internal/api/httpapi"
	"sluice/internal/line/resume"
	"sluice/internal/operate/admin"
	"sluice/internal/web/dashboard"
	"sluice/internal/web/front"
	"sluice/internal/web/guide"
	"sluice/internal/web/support"
)

// costsPage has the table of what each route costs.
const costsPage = "../../docs/bounds.md"

// cost is what a row of the table says of a route.
type cost struct {
	route  string // a method and a pattern; the method is "any" if the pattern takes all
	atOnce int    // how many unread replies of one account there are at most; 0: the row does not say
}

// readCosts reads the table, in its order.
func readCosts(t *testing.T) (all []cost) {
	t.Helper()
	page, err := os.ReadFile(costsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- routes -->\n")
	table, _, _ = strings.Cut(table, "<!-- /routes -->")
	name, number := regexp.MustCompile("`([A-Za-z]+ /[^`]*)`"), regexp.MustCompile(`^\d+`)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 {
			t.Fatalf("the row %q has %d cells, want 4", line, len(cells))
		}
		atOnce, _ := strconv.Atoi(number.FindString(strings.TrimSpace(cells[2]))) // 0 where the cell begins with a word
		for _, m := range name.FindAllStringSubmatch(cells[0], -1) {
			all = append(all, cost{m[1], atOnce})
		}
	}
	return all
}

// allRoutes returns what every router of the program serves.
func allRoutes() []string {
	all := slices.Concat(httpapi.Routes(), dashboard.Routes(), front.Routes(), guide.Routes(), support.New(nil, support.Sources{}).Routes())
	for _, r := range admin.Routes() {
		if r.Path != "" {
			all = append(all, r.Method+" "+admin.Base+r.Path)
		}
	}
	// Those that are beside a router.
	all = append(all, "GET "+admin.Base+"/openapi.json", "POST "+stripe.WebhookPath, "POST "+resume.NodePath, "GET /metrics")
	for i, r := range all {
		if strings.HasPrefix(r, "/") {
			all[i] = "any " + r
		}
	}
	slices.Sort(all)
	return all
}

// Every route has a row in the table of docs/bounds.md#what-each-route-costs, and every row is about a route.
func TestRoutesHaveACost(t *testing.T) {
	t.Parallel()
	var told []string
	for _, c := range readCosts(t) {
		told = append(told, c.route)
	}
	slices.Sort(told)
	if diff := cmp.Diff(told, allRoutes()); diff != "" {
		t.Errorf("the table in %s and the routers differ: -table +routers\n%s", costsPage, diff)
	}
}
