package support

import "github.com/a-h/templ"

// described returns the attributes that join an input to the hint below it.
func described(id, wrong string) templ.Attributes {
	a := templ.Attributes{"aria-describedby": id + "-hint"}
	if wrong != "" {
		a["aria-invalid"] = "true"
	}
	return a
}
