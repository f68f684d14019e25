package admin

import (
	"context"
	"slices"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/feedback"
)

// RouterReset is the argument of router.reset. Without Model it means all.
type RouterReset struct {
	Actor  string `json:"actor"`
	Model  string `json:"model,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (b *Backend) routerFeedback(ctx context.Context, in Cursor) (List[feedback.Rating], error) {
	list, err := b.Feedback.Ratings(ctx)
	return part(list, in, func(s feedback.Rating) string { return s.Model + " " + s.Task }), err
}

// routerReset forgets feedback. The model need not be in the catalog any more, but something must be known of it: a
// typing mistake would otherwise look like success.
func (b *Backend) routerReset(ctx context.Context, in RouterReset) (RouterReset, error) {
	if len(in.Reason) > maxReason {
		return in, fault.New(fault.Invalid, "the reason has %d bytes, and the limit is %d", len(in.Reason), maxReason).At("reason")
	}
	if in.Model != "" {
		list, err := b.Feedback.Ratings(ctx)
		if err != nil {
			return in, err
		}
		if !slices.ContainsFunc(list, func(s feedback.Rating) bool { return s.Model == in.Model }) {
			return in, fault.New(fault.NotFound, "there is no feedback about a model %q; \"sluice router feedback\" shows what there is", excerpt.Of(in.Model, 200)).At("model")
		}
	}
	return in, b.Feedback.Reset(ctx, in.Model, in.Actor, in.Reason)
}
