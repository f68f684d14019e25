package clips

import "sluice/sandbox/clips/h264"

// rate chooses the quantizer of each picture so that a clip stays within its size: about 0.85 MB
// for five seconds of 1280x720, and in proportion to the number of pixels for other sizes and
// lengths.
//
// It depends only on the bytes spent so far, so it is as deterministic as the encoder.
type rate struct {
	perFrame float64 // budget for one picture in bytes
	debt     float64 // bytes spent in excess of the budget so far; negative if saved
}

const (
	bytesPerPixel = 0.85e6 / (5 * fps * 1280 * 720)
	// fineQP is used while there are bytes to spare. Nobody sees the difference to finer ones.
	fineQP, coarseQP = 25, h264.MaxQP
	// keyBonus makes key pictures finer, because all pictures that follow are predicted from them.
	keyBonus = 2
	// steps is how much the quantizer grows when the debt is one second's budget.
	steps = 16
)

// newRate returns the rate control for clips of w by h pixels.
func newRate(w, h int) rate { return rate{perFrame: bytesPerPixel * float64(w*h)} }

// qp returns the quantizer for the next picture.
func (r *rate) qp(key bool) int {
	qp := fineQP
	if r.debt > 0 {
		qp += int(steps * r.debt / (r.perFrame * fps))
	}
	if key {
		qp -= keyBonus
	}
	return max(h264.MinQP, min(qp, coarseQP))
}

// spend records the size of a picture. Savings are limited to one second's budget.
func (r *rate) spend(n int) { r.debt = max(r.debt+float64(n)-r.perFrame, -r.perFrame*fps) }
