package dashboard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
)

// playgroundPath is the path of the playground.
const playgroundPath = home + "/playground"

// playgroundView is the initial data of the playground. The scripts in sources/playground do the rest.
type playgroundView struct {
	// Groups holds the chat models of the visitor's plan by their owners, and Model the one that is selected at first.
	Groups []modelGroup
	Model  string
	Origin string
	// Account tells apart what a browser keeps for several accounts.
	Account string
	// Facts is what the script must know of all models, as JSON: prices, and whether they take pictures.
	Facts string
	// Tools reports whether the plan includes tool calling.
	Tools   bool
	Sharing bool // chats may be shared by links
}

// modelGroup is the models of one owner.
type modelGroup struct {
	Owner  string
	Models []*catalog.Model
}

// playModel is what the playground knows of a model. Prices are in micro-dollars for a million tokens.
type playModel struct {
	Images  bool       `json:"images,omitempty"`
	Context int        `json:"context,omitempty"` // in tokens
	Price   *playPrice `json:"price,omitempty"`
}

type playPrice struct {
	Input     int64  `json:"input"`
	Output    int64  `json:"output"`
	Cached    *int64 `json:"cached,omitempty"`
	Reasoning *int64 `json:"reasoning,omitempty"`
}

// playPriceOf returns the list price of a short call, or nil if it is not known.
func playPriceOf(e *price.Entry) *playPrice {
	if e == nil || e.Rates[price.Input] == price.Unknown || e.Rates[price.Output] == price.Unknown {
		return nil
	}
	micro := func(b price.Bucket) *int64 {
		if e.Rates[b] == price.Unknown {
			return nil
		}
		n := int64(e.Rates[b]) / 1000
		return &n
	}
	return &playPrice{*micro(price.Input), *micro(price.Output), micro(price.CacheRead), micro(price.Reasoning)}
}

// playgroundPage shows the page. The query may name a model to select.
func (d *Dashboard) playgroundPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := playgroundView{Model: r.FormValue("model"), Origin: d.ui.Settings().Origin, Account: v.ID, Tools: v.Plan.IncludesTools(), Sharing: d.ui.Settings().Site.Sharing}
	facts, groups := map[string]playModel{}, map[string]int{}
	for _, m := range d.Catalog().Models() {
		if m.Embeds || !v.includes(m) {
			continue
		}
		at, ok := groups[m.OwnedBy]
		if !ok {
			at = len(view.Groups)
			groups[m.OwnedBy] = at
			view.Groups = append(view.Groups, modelGroup{Owner: m.OwnedBy})
		}
		view.Groups[at].Models = append(view.Groups[at].Models, m)
		one := playModel{Images: m.Images, Context: m.ContextLength}
		one.Price = playPriceOf(m.ToldTo(time.Now(), v.Plan.String(), v.ID))
		facts[m.ID] = one
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	view.Facts = string(text)
	p := d.frame(w, r, v, "Playground")
	p.Styles = []string{"play.css"}
	p.Scripts = []string{"text.js", "snippets.js", "playground.js"}
	return d.ui.Render(w, r, http.StatusOK, playgroundPage(p, view))
}

// daysText says a number of days.
func daysText(n int) string {
	if n == 1 {
		return "1 day"
	}
	return strconv.Itoa(n) + " days"
}

// languages are those of the code pane, as snippets.js names them.
var languages = []front.Snippet{{ID: "curl", Name: "curl"}, {ID: "python", Name: "Python"}, {ID: "typescript", Name: "TypeScript"}, {ID: "go", Name: "Go"}}
