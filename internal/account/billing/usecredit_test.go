package billing

import "testing"

func TestUseCredit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ credit, price, least, want int64 }{
		{0, 1000, 50, 0},
		{400, 1000, 50, 400},
		{1000, 1000, 50, 1000},
		{5000, 1000, 50, 1000},
		{970, 1000, 50, 950}, // 30 cents are too little to charge
		{20, 30, 50, 0},      // so is the price itself
		{970, 1000, 0, 970},
	} {
		b := &Record{CreditCents: tt.credit}
		if got := b.useCredit(tt.price, tt.least); got != tt.want {
			t.Errorf("useCredit(%d, %d) with a credit of %d = %d, want %d", tt.price, tt.least, tt.credit, got, tt.want)
		}
	}
}
