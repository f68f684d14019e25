package fault_test

import (
	"errors"
	"fmt"
	"time"

	"sluice/internal/kit/fault"
)

// The message and the param are for the caller. The cause is for the log.
func ExampleFault_Because() {
	cause := errors.New("dial tcp 10.0.0.7:8000: connection refused")
	f := fault.New(fault.Unavailable, "The model is not available now.").Because(cause)
	fmt.Println("caller:", f.Message)
	fmt.Println("log:   ", f.Error())
	// Output:
	// caller: The model is not available now.
	// log:    The model is not available now.: dial tcp 10.0.0.7:8000: connection refused
}

// The kind decides the status and the type of the error object.
func ExampleKind() {
	f := fault.New(fault.Invalid, "temperature must be between 0 and 2; got 3.").At("temperature")
	fmt.Println(f.Kind.Status(), f.Kind, f.Param)
	// Output: 400 invalid_request_error temperature
}

// An error that is not a fault is a bug. The caller learns nothing of it.
func ExampleFrom() {
	err := fmt.Errorf("settle: %w", errors.New("pq: relation does not exist"))
	f := fault.From(err)
	fmt.Println(f.Kind.Status(), f.Kind)

	err = fmt.Errorf("admit: %w", fault.New(fault.RateLimited, "Too many requests.").After(3*time.Second))
	f = fault.From(err)
	fmt.Println(f.Kind.Status(), f.Message, f.RetryAfter, f.Retryable())
	// Output:
	// 500 server_error
	// 429 Too many requests. 3s true
}
