package sandbox

import "sluice/internal/video/sandbox/h264"

// rate chooses quantisers so that a clip stays within its size: about 0.85 MB for five seconds of
// 1280x720, and in proportion to the pixels for other sizes and lengths.
//
// It works on what has been spent so far alone, so it is as deterministic as the encoder.
type rate struct {
	perFrame float64 // bytes
	debt     float64 // bytes spent beyond that so far
}

const (
	bytesPerPixel = 0.85e6 / (5 * fps * 1280 * 720)
	// fineQP is used while there are bytes to spare. Finer ones are not seen.
	fineQP, coarseQP = 25, h264.MaxQP
	// A key picture serves for all that follow it, so it is coded more finely.
	keyBonus = 2
	// steps is by how much the quantiser grows with a debt of one second.
	steps = 16
)

func newRate(w, h int) rate { return rate{perFrame: bytesPerPixel * float64(w*h)} }

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

// spend notes the size of a picture. Savings are kept for at most a second.
func (r *rate) spend(n int) { r.debt = max(r.debt+float64(n)-r.perFrame, -r.perFrame*fps) }
