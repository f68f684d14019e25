package markup

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/a-h/templ"
)

// page is a template with an expression, an address and its children.
func page(text, address string) templ.Component {
	return Template(func(ctx Context, b *Buffer, children templ.Component) error {
		Raw(b, "<p>")
		Text(b, text)
		Raw(b, `</p><a href="`)
		URL(b, address)
		Raw(b, `">`)
		if err := children.Render(ctx, b); err != nil {
			return err
		}
		Raw(b, "</a>")
		return nil
	})
}

func TestRender(t *testing.T) {
	t.Parallel()
	inner := Block(func(ctx Context, b *Buffer) error { return page("in", "/in").Render(ctx, b) })
	for _, c := range []struct {
		name string
		ctx  context.Context
		page templ.Component
		want string
	}{
		{"escaped", t.Context(), page(`<b> & "`, "/a?b&c"), `<p>&lt;b&gt; &amp; &#34;</p><a href="/a?b&amp;c"></a>`},
		{"script in an address", t.Context(), page("x", "javascript:alert(1)"), `<p>x</p><a href="about:invalid#TemplFailedSanitizationURL"></a>`},
		// The inner page has no children of its own, and does not get those of the outer one.
		{"children", templ.WithChildren(t.Context(), inner), page("out", "/out"), `<p>out</p><a href="/out"><p>in</p><a href="/in"></a></a>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := c.page.Render(c.ctx, &out); err != nil || out.String() != c.want {
				t.Errorf("Render() = %q, %v, want %q", out.String(), err, c.want)
			}
		})
	}
}

// broken is a connection that nobody reads.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// TestRenderError: nobody checks a single text, and the error is not lost.
func TestRenderError(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for _, text := range []string{"short", strings.Repeat("longer than the buffer ", 1000)} {
		if err := page(text, "/").Render(t.Context(), broken{gone}); !errors.Is(err, gone) {
			t.Errorf("Render() of %d bytes = %v, want %v", len(text), err, gone)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := page("x", "/").Render(ctx, &strings.Builder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Render() after the caller left = %v, want %v", err, context.Canceled)
	}
}
