package dashboard

import (
	"slices"

	"github.com/a-h/templ"

	"sluice/internal/web/webui"
)

// tabIndex makes only the first of several tabs reachable with the Tab key. app.js moves
// between tabs with the arrow keys.
func tabIndex(i int) string {
	if i == 0 {
		return "0"
	}
	return "-1"
}

// covered returns the note below a cost: how many calls it leaves out, and why.
func covered(left int64) string {
	if left == 0 {
		return "covered by your plan"
	}
	return webui.Number(left) + " with no price"
}

// costless is covered for sums that are stored, which also count requests that used nothing.
func costless(left int64) string {
	if left == 0 {
		return covered(0)
	}
	return webui.Number(left) + " without a cost"
}

// exactly returns the attributes of a figure that leads nowhere: what it has rounded.
func exactly(f figure) templ.Attributes {
	if f.Title == "" || f.Link != "" {
		return nil
	}
	return templ.Attributes{"title": f.Title}
}

// named returns the attributes of the field for a key's name. The cursor is there unless another field is wrong.
func named(p problems) templ.Attributes {
	a := templ.Attributes{"required": true, "maxlength": "100", "autocomplete": "off"}
	if len(p) == 0 {
		a["autofocus"] = true
	}
	return a
}

// loadsAgain makes an element replace itself every five seconds by what an address returns. What can have the focus in it needs an
// id, so that the focus stays there. An empty address leaves it as it is.
func loadsAgain(address string) templ.Attributes {
	if address == "" {
		return nil
	}
	return templ.Attributes{"hx-get": address, "hx-trigger": "every 5s", "hx-swap": "outerHTML"}
}

// opened opens a details element.
func opened(yes bool) templ.Attributes {
	if !yes {
		return nil
	}
	return templ.Attributes{"open": true}
}

// numeric makes phones show a keyboard of digits.
func numeric() templ.Attributes {
	return templ.Attributes{"inputmode": "numeric", "autocomplete": "off", "placeholder": "no limit"}
}

// limited reports whether the form has limits, or something wrong about them.
func (f *keyForm) limited() bool {
	for field := range f.Problems {
		if field != "name" && field != "" {
			return true
		}
	}
	return slices.ContainsFunc(keyFields[1:], func(name string) bool { return f.Get(name) != "" })
}

// firstOf adds to the attributes of a form's first field that the cursor is there, unless something is wrong with a field.
func firstOf(p problems, attrs templ.Attributes) templ.Attributes {
	if p == nil {
		attrs["autofocus"] = true
	}
	return attrs
}

// wrongField connects a field that webui.Field cannot show with what is wrong with it, and puts the cursor there.
func wrongField(name string, p problems) templ.Attributes {
	if p[name] == "" {
		return nil
	}
	return templ.Attributes{"aria-describedby": "w-" + name, "aria-invalid": "true", "autofocus": true}
}
