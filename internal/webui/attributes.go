package webui

import "github.com/a-h/templ"

// theme is the attribute of a chosen theme; none: the system's.
func theme(name string) templ.Attributes {
	if name == "" {
		return nil
	}
	return templ.Attributes{"data-theme": name}
}

func themeName(theme string) string {
	switch theme {
	case "light":
		return "Light"
	case "dark":
		return "Dark"
	}
	return "System"
}

func current(yes bool) templ.Attributes {
	if !yes {
		return nil
	}
	return templ.Attributes{"aria-current": "page"}
}

// described ties an input to the sentence below it.
func described(name, hint, wrong string) templ.Attributes {
	switch {
	case wrong != "":
		return templ.Attributes{"aria-describedby": "w-" + name, "aria-invalid": "true"}
	case hint != "":
		return templ.Attributes{"aria-describedby": "h-" + name}
	}
	return nil
}
