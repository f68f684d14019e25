package front

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
)

// List is the page of models: the filters and the models that pass them.
type List struct {
	// Path is the path of the page.
	Path    string
	Search  string
	Kind    string
	Plan    string
	Owner   string
	Feature string
	Context int
	Sort    string
	// Models are those of this page, which is number Page of Pages. Found is how many pass the filters, and All how many there
	// are.
	Models      []Model
	Page, Pages int
	Found, All  int
	Owners      []string
	// Chosen are the ids of the models to compare.
	Chosen []string
	// Load is the workload that models are to be priced for, if Loaded.
	Load   Workload
	Loaded bool
	// Member reports whether the reader has an account.
	Member bool
	// Since says of which time the speed of the models is known; see lastDays.
	Since string
	now   time.Time
}

const (
	// MostCompared is how many models can be compared.
	MostCompared = 4
	// mostListed is how many models a page has.
	mostListed = 100
)

// List returns the models that pass the filters of a request.
func (s *ModelInfo) List(r *http.Request, path string, reader *Reader) List {
	v := List{
		Path: path, Search: strings.TrimSpace(r.FormValue("q")), Kind: r.FormValue("kind"), Plan: r.FormValue("plan"), Owner: r.FormValue("owner"),
		Feature: r.FormValue("feature"), Sort: r.FormValue("sort"), Member: reader != nil, now: time.Now(),
	}
	// Anything that is not a number does not filter.
	v.Context, _ = strconv.Atoi(r.FormValue("context"))
	v.Load, v.Loaded = workloadOf(r.Form)
	all := s.All(r.Context(), reader)
	v.All, v.Since = len(all), lastDays(all)
	for i := range all {
		if owner := all[i].OwnedBy; owner != "" && !slices.Contains(v.Owners, owner) {
			v.Owners = append(v.Owners, owner)
		}
		if v.wants(&all[i]) {
			v.Models = append(v.Models, all[i])
		}
	}
	slices.Sort(v.Owners)
	for _, id := range r.Form["m"] {
		if find(all, id) != nil && len(v.Chosen) < MostCompared && !slices.Contains(v.Chosen, id) {
			v.Chosen = append(v.Chosen, id)
		}
	}
	v.order()
	v.Found = len(v.Models)
	v.Pages = max(1, (v.Found+mostListed-1)/mostListed)
	v.Page, _ = strconv.Atoi(r.FormValue("page"))
	v.Page = min(max(1, v.Page), v.Pages)
	v.Models = v.Models[(v.Page-1)*mostListed : min(v.Found, v.Page*mostListed)]
	return v
}

// wants reports whether a model passes the filters. Every word of the search must occur in its id, description or owner.
func (v *List) wants(m *Model) bool {
	for word := range strings.FieldsSeq(strings.ToLower(v.Search)) {
		if !strings.Contains(strings.ToLower(m.ID+" "+m.Description+" "+m.OwnedBy), word) {
			return false
		}
	}
	has := true
	switch v.Feature {
	case "tools":
		has = m.ToolCalling
	case "images":
		has = m.takesImages()
	case "reasoning":
		has = m.Thinks
	}
	return has && (v.Kind == "" || string(m.Kind) == v.Kind) && (v.Plan == "" || m.Plan.String() == v.Plan) && (v.Owner == "" || m.OwnedBy == v.Owner) &&
		(v.Context == 0 || m.ContextLength >= v.Context)
}

// order sorts the models. The order of the catalog is the default, and decides where others are equal. What is not
// known comes last.
func (v *List) order() {
	const unknown = 1 << 62
	var key func(m *Model) int64
	switch v.Sort {
	case "price":
		key = func(m *Model) int64 {
			if m.told == nil || m.told.Rates[price.Input] == price.Unknown || m.told.Rates[price.Output] == price.Unknown {
				return unknown
			}
			return int64(m.told.Rates[price.Input] + m.told.Rates[price.Output])
		}
	case "cost":
		key = func(m *Model) int64 {
			if e := m.Estimate(v.Load, v.now); v.Loaded && e.Known {
				return int64(e.Month)
			}
			return unknown
		}
	case "context":
		key = func(m *Model) int64 { return -int64(m.ContextLength) }
	case "first":
		key = func(m *Model) int64 {
			if d := m.Total.First.Quantile(0.5); d > 0 {
				return int64(d)
			}
			return unknown
		}
	case "speed":
		key = func(m *Model) int64 { return -int64(m.Total.Speed() * 1000) }
	case "name":
		slices.SortStableFunc(v.Models, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
		return
	case "new":
		key = func(m *Model) int64 { return -m.Created }
	default:
		v.Sort = ""
		return
	}
	slices.SortStableFunc(v.Models, func(a, b Model) int { return cmp.Compare(key(&a), key(&b)) })
}

// sorts are the orders to choose from.
var sorts = []option{
	{"", "Recommended"}, {"price", "Lowest price"}, {"cost", "Lowest cost of my workload"}, {"context", "Longest context"}, {"first", "Fastest first token"}, {"speed", "Highest throughput"}, {"new", "Newest"}, {"name", "Name"},
}

// tiers are the plans to filter by. Scale has no models of its own.
var tiers = []account.Plan{account.Free, account.Basic, account.Premium}

// contexts are the context lengths to filter by, in tokens.
var contexts = []int{32_000, 128_000, 200_000, 400_000, 1_000_000}

// features are what chat models can do, to filter by.
var features = []option{{"tools", "Tool calling"}, {"images", "Image input"}, {"reasoning", "Reasoning"}}

// query returns the filters, the order, the workload and the models to compare, without what is as it is anyway.
func (v *List) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"q": v.Search, "kind": v.Kind, "plan": v.Plan, "owner": v.Owner, "feature": v.Feature, "sort": v.Sort} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if v.Context > 0 {
		q.Set("context", strconv.Itoa(v.Context))
	}
	v.Load.set(q)
	if len(v.Chosen) > 0 {
		q["m"] = v.Chosen
	}
	return q
}

// Address returns the address of the list as it is.
func (v *List) Address() string { return v.page(v.Page) }

// page returns the address of another page of the list.
func (v *List) page(n int) string {
	q := v.query()
	if n > 1 {
		q.Set("page", strconv.Itoa(n))
	}
	return withQuery(v.Path, q)
}

// filtered reports whether a filter is set.
func (v *List) filtered() bool {
	return v.Search+v.Kind+v.Plan+v.Owner+v.Feature != "" || v.Context > 0
}

// unfiltered returns the address of the list without filters.
func (v *List) unfiltered() string {
	all := *v
	all.Search, all.Kind, all.Plan, all.Owner, all.Feature, all.Context, all.Page = "", "", "", "", "", 0, 1
	return all.Address()
}

// unchosen returns the address of the list with nothing to compare.
func (v *List) unchosen() string {
	all := *v
	all.Chosen = nil
	return all.Address()
}

// chosen reports whether a model is to be compared, and listed whether this page has it.
func (v *List) chosen(id string) bool { return slices.Contains(v.Chosen, id) }
func (v *List) listed(id string) bool { return find(v.Models, id) != nil }

// at returns the address of the page of a model, which counts the same workload.
func (v *List) at(id string) string {
	q := url.Values{}
	if v.Loaded {
		v.Load.set(q)
	}
	return withQuery(At(v.Path, id), q)
}

// loadedWith returns the address of the list for another workload.
func (v *List) loadedWith(w Workload) string {
	all := *v
	all.Load = w
	return all.Address()
}

// option is one of a menu.
type option struct{ Value, Text string }

// same returns options whose texts are their values.
func same(values []string) (list []option) {
	for _, v := range values {
		list = append(list, option{v, v})
	}
	return list
}

func tierOptions() (list []option) {
	for _, t := range tiers {
		list = append(list, option{t.String(), PlanName(t)})
	}
	return list
}

func contextOptions() (list []option) {
	for _, n := range contexts {
		list = append(list, option{strconv.Itoa(n), tokensText(int64(n)) + " or more"})
	}
	return list
}
