package chat

import (
	"math/big"
	"testing"
)

func TestIntegral(t *testing.T) {
	t.Parallel()
	for _, num := range []string{
		"0", "-0", "0.0", "0e5", "0e99999999999999999999", "0.000e-99999999999999999999", "1", "-1", "10", "10.0", "10.50", "1e1", "1E+1", "100e-2", "100e-3",
		"0.02e2", "1.5", "-1.5e1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"9999999999999999999", "10000000000000000000", "1e18", "1e19", "1e20", "-1e19", "1e300", "-1e300", "1e-300", "1e-99999999999999999999",
		"922337203685477580.7e1", "0.9999999999999999999999999", "1.0000000000000000000000000001",
		"1000000000000000000000000000000000000000000000000000000000000e-60", "0.0000000000000000000000000000000000000000000000000000001e55",
	} {
		v, kind := integral([]byte(num))
		// big.Rat cannot represent the most extreme exponents; those numbers are zero or a fraction.
		r, ok := new(big.Rat).SetString(num)
		if !ok {
			wantKind := fraction
			if num[0] == '0' {
				wantKind = fits
			}
			if v != 0 || kind != wantKind {
				t.Errorf("integral(%s) = %d, %d, want 0, %d", num, v, kind, wantKind)
			}
			continue
		}
		wantKind := fits
		switch {
		case !r.IsInt():
			wantKind = fraction
		case r.Num().IsInt64():
		case r.Sign() < 0:
			wantKind = tooSmall
		default:
			wantKind = tooLarge
		}
		var want int64
		if wantKind == fits {
			want = r.Num().Int64()
		}
		if v != want || kind != wantKind {
			t.Errorf("integral(%s) = %d, %d, want %d, %d", num, v, kind, want, wantKind)
		}
	}
}
