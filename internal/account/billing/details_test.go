package billing

import (
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

func TestDetails(t *testing.T) {
	t.Parallel()
	got, err := Details{Name: " Ana & Co. ", Address: "Road 1\r\n\r\n  12345 Town \n", Country: "DE", TaxID: " DE123 ", Email: "Books@Example.com"}.check()
	if want := (Details{"Ana & Co.", "Road 1\n12345 Town", "DE", "DE123", "books@example.com"}); err != nil || got != want {
		t.Errorf("check = %+v, %v, want %+v", got, err, want)
	}
	// Characters count, and not bytes, as the form counts them.
	if _, err := (Details{Name: strings.Repeat("ä", maxDetail), Address: strings.Repeat("ß", maxAddress)}).check(); err != nil {
		t.Errorf("check of as many characters as there may be = %v", err)
	}
	// All that is wrong is said at once.
	_, err = Details{Country: "Germany", Email: "nobody"}.check()
	if list, ok := err.(interface{ Unwrap() []error }); !ok || len(list.Unwrap()) != 2 {
		t.Errorf("check of two mistakes = %v, want both", err)
	}
	for field, d := range map[string]Details{
		"name": {Name: strings.Repeat("x", maxDetail+1)}, "tax_id": {TaxID: "a\nb"}, "email": {Email: "nobody"}, "country": {Country: "XX"},
		"address": {Address: strings.Repeat("line\n", maxAddressLines+1)},
	} {
		if _, err := d.check(); !fault.Is(err, fault.Invalid) || fault.From(err).Param != field {
			t.Errorf("check(%+v) = %v at %q, want invalid at %q", d, err, fault.From(err).Param, field)
		}
	}
}
