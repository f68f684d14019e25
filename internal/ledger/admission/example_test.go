package admission_test

import (
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// The window slides: the third call in a minute is refused, and passes when the first is more than a minute old.
func ExampleMemory_Take() {
	var now time.Duration
	ledger := admission.NewMemory(func() time.Duration { return now })
	limits := account.Limits{RequestsPerMinute: 2, Concurrent: account.Unlimited, TokensPerMinute: account.Unlimited}
	one := admission.Cost{RequestMilli: 1000}

	for _, now = range []time.Duration{0, 20 * time.Second, 50 * time.Second, 61 * time.Second} {
		_, headroom, obstacle := ledger.Take("acc_1", limits, one)
		if obstacle != nil {
			fmt.Println(now, "refused, wait", obstacle.Wait)
			continue
		}
		fmt.Println(now, "admitted,", headroom.Requests.Remaining, "left")
	}
	// Output:
	// 0s admitted, 1 left
	// 20s admitted, 0 left
	// 50s refused, wait 10.001s
	// 1m1s admitted, 0 left
}

// Free ends a call with what it came to. What it had taken beyond that comes back.
func ExampleMemory_Free() {
	ledger := admission.NewMemory(func() time.Duration { return 0 })
	limits := account.Limits{RequestsPerMinute: 10, Concurrent: 1, TokensPerMinute: 1000}

	place, headroom, _ := ledger.Take("acc_1", limits, admission.Cost{RequestMilli: 1000, Tokens: 600})
	fmt.Println("reserved:", headroom.Tokens.Remaining, "tokens left")
	ledger.Free("acc_1", place, admission.Cost{RequestMilli: 1000, Tokens: 150})
	fmt.Println("settled: ", ledger.Peek("acc_1", limits).Tokens.Remaining, "tokens left")
	// Output:
	// reserved: 400 tokens left
	// settled:  850 tokens left
}
