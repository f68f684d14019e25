package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
)

// Op is an operation: a function of an argument that returns a result, and the ways to it. Run calls it for the console,
// Call for the command line, and both are plain calls unless a socket or a network lies between. Its Route serves it to
// programs that write JSON.
type Op[In, Out any] struct {
	*Route
	run func(b *Backend, ctx context.Context, in In) (Out, error)
}

// Route is an operation without its types. On the admin socket every operation is POST /{name}.
type Route struct {
	Name string
	// Method and Path are those of the admin API, the path below Base. Fields of the argument that are in the path
	// are taken from there, others from the query of a GET and the body of any other method. An empty path means
	// that the operation is not part of the API; if it has a scope, the console may call it.
	Method, Path string
	Scope        Scope
	Summary      string

	in, out reflect.Type
	// handle reads the argument from JSON and runs the operation for a member, or for the operator if c is nil.
	handle func(ctx context.Context, b *Backend, c *Caller, raw []byte) (any, error)
}

// shared has the operations, which do not change.
var shared = sync.OnceValue(operations)

// Ops returns all operations.
func Ops() *Operations { return shared() }

// table is the routes of operations that are served.
type table []*Route

// op returns an operation and adds it to the table.
func op[In, Out any](t *table, name, method, path string, scope Scope, summary string, run func(*Backend, context.Context, In) (Out, error)) Op[In, Out] {
	o := Op[In, Out]{&Route{Name: name, Method: method, Path: path, Scope: scope, Summary: summary, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}, run}
	o.handle = func(ctx context.Context, b *Backend, c *Caller, raw []byte) (any, error) {
		var in In
		if err := decode(raw, &in); err != nil {
			return nil, err
		}
		return o.as(ctx, b, c, in)
	}
	*t = append(*t, o.Route)
	return o
}

// local returns an operation that only the socket serves.
func local[In, Out any](t *table, name string, run func(*Backend, context.Context, In) (Out, error)) Op[In, Out] {
	return op(t, name, "", "", Local, "", run)
}

// console returns an operation that is for the console alone: nothing serves it.
func console[In, Out any](name string, scope Scope, run func(*Backend, context.Context, In) (Out, error)) Op[In, Out] {
	return Op[In, Out]{&Route{Name: name, Scope: scope}, run}
}

// Routes returns all operations that are served, as a copy.
func Routes() []*Route { return slices.Clone(Ops().routes) }

// named returns the operation with a name, or nil.
func named(name string) *Route {
	if i := slices.IndexFunc(Ops().routes, func(r *Route) bool { return r.Name == name }); i >= 0 {
		return Ops().routes[i]
	}
	return nil
}

// decode reads the argument of an operation. Unknown fields are errors: they come from a client of another version, and
// ignoring them would do something else than the operator asked.
func decode(raw []byte, in any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		return fault.New(fault.Invalid, "the argument cannot be read: %v", err)
	}
	return nil
}

// Caller is a member of staff who calls an operation.
type Caller struct {
	Actor     string // for the audit log
	AccountID string // of the member
	// Token is what the member calls with; nil in the console, where members have every scope.
	Token *staff.Token
}

type callerKey struct{}

// callerOf returns the member who calls an operation, or nil for the operator at the socket.
func callerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// mayCall returns an error if the caller does not have the scope of an operation.
func (c *Caller) mayCall(r *Route) error {
	if r.Scope == Local || c.Token != nil && !c.Token.Allows(string(r.Scope)) {
		return fault.New(fault.Forbidden, "This needs the scope %s, which your token does not have.", r.Scope)
	}
	return nil
}

// Run runs the operation for a member in the console. The actor in the argument is replaced by the caller.
func (o Op[In, Out]) Run(ctx context.Context, s *Service, c Caller, in In) (Out, error) {
	return o.as(ctx, s.backend, &c, in)
}

// as runs the operation for a member, who needs its scope, or for the operator if c is nil.
func (o Op[In, Out]) as(ctx context.Context, b *Backend, c *Caller, in In) (out Out, err error) {
	if c == nil {
		return o.run(b, ctx, in)
	}
	if err := c.mayCall(o.Route); err != nil {
		return out, err
	}
	sign(&in, c.Actor)
	return o.run(b, context.WithValue(ctx, callerKey{}, c), in)
}

// Call runs the operation on a client, in the name of its Actor. An error of the operation is returned as a
// *fault.Fault.
func (o Op[In, Out]) Call(ctx context.Context, c *Client, in In) (out Out, err error) {
	if c.Actor != "" {
		sign(&in, c.Actor)
	}
	if c.backend != nil {
		out, err = o.run(c.backend, ctx, in)
		return out, openly(err)
	}
	return out, c.Call(ctx, o.Name, in, &out)
}

// sign writes who acts into an argument that has a place for it: a field Actor, also of an embedded Target.
func sign(in any, actor string) {
	if v := reflect.ValueOf(in).Elem(); v.Kind() == reflect.Struct {
		if f := v.FieldByName("Actor"); f.IsValid() {
			f.SetString(actor)
		}
	}
}
