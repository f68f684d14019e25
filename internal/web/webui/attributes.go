package webui

import "github.com/a-h/templ"

// theme returns the attribute of the chosen theme, or nil for the theme of the system.
func theme(name string) templ.Attributes {
	if name == "" {
		return nil
	}
	return templ.Attributes{"data-theme": name}
}

// themeName returns the label of the theme button.
func themeName(theme string) string {
	switch theme {
	case "light":
		return "Light"
	case "dark":
		return "Dark"
	}
	return "System"
}

// Current marks the link of the current page for screen readers and style sheets.
func Current(yes bool) templ.Attributes {
	if !yes {
		return nil
	}
	return templ.Attributes{"aria-current": "page"}
}

// Live returns the attributes of a form of filters, or of a part with links, whose page is read again in place: main is
// replaced, the address follows, and Back restores both. Without scripts it is an ordinary form, which needs a button with
// data-apply, and ordinary links.
func Live() templ.Attributes {
	return templ.Attributes{"data-auto": true, "hx-boost": "true", "hx-target": "#main", "hx-select": "#main", "hx-swap": "outerHTML show:none", "hx-sync": "this:replace"}
}

// described connects an input with the hint or error below it, which screen readers then read. The browser scrolls to an
// input that is wrong and puts the cursor there; attrs are its other attributes.
func described(name, hint, wrong string, attrs templ.Attributes) templ.Attributes {
	switch {
	case wrong != "":
		a := templ.Attributes{"aria-describedby": "w-" + name, "aria-invalid": "true"}
		if attrs["autofocus"] == nil {
			a["autofocus"] = true
		}
		return a
	case hint != "":
		return templ.Attributes{"aria-describedby": "h-" + name}
	}
	return nil
}
