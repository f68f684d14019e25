package typo

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	known := []string{"listen", "data", "base_url", "api_key", "plan", "lab/small", "sandbox/large"}
	for name, want := range map[string]string{
		"lisen": "listen", "LISTEN": "listen", "baseUrl": "base_url", "apikey": "api_key", "plans": "plan", "date": "data",
		"lab/smal": "lab/small", "small": "lab/small", "large": "sandbox/large", "all": "", "/small": "",
		"colour": "", "x": "", "": "", strings.Repeat("listen", 1<<20): "",
	} {
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got := DidYouMean(name, known); got != want {
			t.Errorf("DidYouMean(%.20q) = %q, want %q", name, got, want)
		}
	}
}
