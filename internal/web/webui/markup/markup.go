// Package markup is what the generated templates of all pages call.
//
// templ writes every step of a template out: a check after each text, the place in the file for each
// expression, a buffer for each component. The command tighten replaces these with calls of this package, which
// makes the machine code of the pages less than half as large. What pages look like is in package webui.
package markup

import (
	"context"
	"io"

	"github.com/a-h/templ"
	"github.com/a-h/templ/runtime"
)

// Context is context.Context, under a name that generated code need not import.
type Context = context.Context

// Buffer is what a page is written to. It keeps the first error of its writer and returns it when it is flushed,
// so that nobody has to look after each text.
type Buffer = runtime.Buffer

// Template is the body of a template.
type Template func(ctx Context, b *Buffer, children templ.Component) error

// Render writes the component to w.
func (t Template) Render(ctx Context, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx = templ.InitializeContext(ctx)
	children := templ.GetChildren(ctx)
	ctx = templ.ClearChildren(ctx) // they are this template's, and not those of the templates in it
	return buffered(w, func(b *Buffer) error { return t(ctx, b, children) })
}

// Block is what stands between the braces after the call of a template: its children.
type Block func(ctx Context, b *Buffer) error

// Render writes the component to w.
func (f Block) Render(ctx Context, w io.Writer) error {
	ctx = templ.InitializeContext(ctx)
	return buffered(w, func(b *Buffer) error { return f(ctx, b) })
}

// buffered calls write with the buffer of the template around this one, or with a new one.
func buffered(w io.Writer, write func(*Buffer) error) (err error) {
	b, ofAnother := runtime.GetBuffer(w)
	if !ofAnother {
		defer func() {
			if e := runtime.ReleaseBuffer(b); err == nil {
				err = e
			}
		}()
	}
	return write(b)
}

// Raw writes a text of the template itself.
//
//go:noinline
func Raw(b *Buffer, s string) { b.WriteString(s) }

// Text writes the value of an expression, escaped.
func Text[T ~string](b *Buffer, s T) { escape(b, string(s)) }

// URL writes the value of an expression in an attribute that takes an address. What is not a templ.SafeURL
// is made harmless.
func URL[T ~string](b *Buffer, s T) {
	safe, _ := templ.JoinURLErrs(s) // joins errors, and there are none
	escape(b, string(safe))
}

//go:noinline
func escape(b *Buffer, s string) { b.WriteString(templ.EscapeString(s)) }
