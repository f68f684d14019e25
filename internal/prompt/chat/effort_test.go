package chat_test

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
)

func TestNearestEffort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ asked, list, want string }{
		{"xhigh", "low medium high", "high"},
		{"max", "none low medium high xhigh", "xhigh"},
		{"minimal", "none low medium high", "low"},
		{"minimal", "low medium high", "low"},
		{"none", "low medium high", "low"},
		{"none", "minimal low", "minimal"},
		{"medium", "low high", "high"},
		{"low", "none", "none"},
		{"low", "none high", "none"},
		{"medium", "none high", "high"},
		{"xhigh", "low medium high max", "high"},
		{"high", "none low medium high", "high"},
		{"max", "", "max"},
	} {
		var list []chat.Effort
		for word := range strings.FieldsSeq(tt.list) {
			list = append(list, chat.Effort(word))
		}
		if got := chat.Effort(tt.asked).Nearest(list); string(got) != tt.want {
			t.Errorf("%s of %q = %s, want %s", tt.asked, tt.list, got, tt.want)
		}
		if !slices.IsSortedFunc(list, chat.Effort.Compare) {
			t.Errorf("%q is not in rising order", tt.list)
		}
	}
}
