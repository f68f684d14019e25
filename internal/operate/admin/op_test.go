package admin

import (
	"context"
	"reflect"
	"testing"

	"sluice/internal/kit/fault"
)

// Who acts is written into every argument that has a place for it: a change without an actor would be nobody's.
func TestEveryArgumentIsSigned(t *testing.T) {
	t.Parallel()
	for _, r := range Ops().routes {
		_, fields := fieldsOf(r.in)
		f, ok := fields["actor"]
		if !ok {
			continue
		}
		in := reflect.New(r.in)
		sign(in.Interface(), "staff:eve")
		if got := in.Elem().FieldByIndex(f.Index).String(); got != "staff:eve" {
			t.Errorf("the argument of %s has the actor %q, want the one who signed it", r.Name, got)
		}
	}
}

// The console gets what the operation returns, and only what a member may call.
func TestRun(t *testing.T) {
	t.Parallel()
	s := NewService(&Backend{Reload: func(ctx context.Context) ([]string, error) { return []string{callerOf(ctx).Actor}, nil }}, nil, nil)
	eve := Caller{Actor: "staff:eve"}
	if got, err := Ops().ConfigReload.Run(t.Context(), s, eve, Empty{}); err != nil || len(got.RestartNeeded) != 1 || got.RestartNeeded[0] != eve.Actor {
		t.Errorf("ConfigReload.Run = %+v, %v, want it run by %s", got, err, eve.Actor)
	}
	if _, err := Ops().AuditRun.Run(t.Context(), s, eve, Empty{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("AuditRun.Run = %v, want it refused: it is for the socket alone", err)
	}
}
