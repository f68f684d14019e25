package httpapi

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/receipt"
	"sluice/internal/line/inference"
)

// receiptKeysPath is where the public keys of receipts are, for everybody.
const receiptKeysPath = "/.well-known/sluice-receipts.json"

// defaultReceipts is how many receipts GET /v1/receipts lists unless told.
const defaultReceipts = 100

// receiptOf returns what the receipt of a call needs, if the request asks for one or the account wants one of every call; else nil.
func (a *API) receiptOf(x *exchange, r *http.Request, body []byte) *inference.Receipt {
	if a.opts.Receipts == nil {
		return nil
	}
	h := r.Header[receipt.Header]
	deliver := len(h) == 1 && h[0] == "1"
	if !deliver && !x.caller.Account.Receipts {
		return nil
	}
	return &inference.Receipt{Request: sha256.Sum256(body), Deliver: deliver}
}

// attested wraps the handlers of receipts: there is nothing at their paths if there are none.
func (a *API) attested(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if a.opts.Receipts == nil {
			return nothingAt(r)
		}
		return next(x, r)
	}
}

// listReceiptKeys serves GET /.well-known/sluice-receipts.json.
func (a *API) listReceiptKeys(x *exchange, _ *http.Request) error {
	x.Header()["Cache-Control"] = []string{"public, max-age=60"}
	x.Header()["Access-Control-Allow-Origin"] = anyOrigin
	return x.json(a.opts.Receipts.Keys())
}

// receiptReply is a receipt as the API shows it.
type receiptReply struct {
	ID       string `json:"id"` // of the request
	Object   string `json:"object"`
	IssuedAt int64  `json:"issued_at,omitempty"`
	Receipt  string `json:"receipt"`
}

// receiptList is the reply of GET /v1/receipts.
type receiptList struct {
	Object string         `json:"object"`
	Data   []receiptReply `json:"data"`
	Next   *string        `json:"next"`
}

// showReceipt serves GET /v1/receipts/{id}.
func (a *API) showReceipt(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	signed, err := a.opts.Receipts.One(r.Context(), x.caller.Account.ID, id)
	if err != nil {
		return err
	}
	return x.encode(receiptReply{ID: id, Object: "receipt", Receipt: signed})
}

// listReceipts serves GET /v1/receipts.
func (a *API) listReceipts(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	limit, err := limitOf(query, defaultReceipts, receipt.MostListed)
	if err != nil {
		return err
	}
	from, until, err := receiptTimes(query)
	if err != nil {
		return err
	}
	page, err := a.opts.Receipts.List(r.Context(), x.caller.Account.ID, from, until, query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	out := receiptList{Object: "list", Data: make([]receiptReply, len(page.Receipts))}
	for i, s := range page.Receipts {
		out.Data[i] = receiptReply{s.ID, "receipt", s.At.Unix(), s.Signed}
	}
	if page.Next != "" {
		out.Next = &page.Next
	}
	return x.encode(out)
}

// receiptTimes returns the time that a list of receipts is about: the month of a parameter, or from another one on.
func receiptTimes(query url.Values) (from, until time.Time, err error) {
	until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case query.Has("month"):
		if from, err = receiptMonth(query); err == nil {
			until = from.AddDate(0, 1, 0)
		}
	case query.Has("from"):
		text := query.Get("from")
		seconds, e := strconv.ParseInt(text, 10, 64)
		if e != nil || seconds < 0 || seconds >= until.Unix() {
			return from, until, fault.New(fault.Invalid, "from must be a time in Unix seconds; got %q.", excerpt.Of(text, maxEcho)).At("from")
		}
		from = time.Unix(seconds, 0)
	}
	return from, until, err
}

// receiptMonth returns the beginning of the month that the parameter names.
func receiptMonth(query url.Values) (time.Time, error) {
	text := query.Get("month")
	t, err := time.Parse("2006-01", text)
	if err != nil {
		return t, fault.New(fault.Invalid, "month must be a month such as 2026-11; got %q.", excerpt.Of(text, maxEcho)).At("month")
	}
	return t, nil
}

// rootReply is the reply of GET /v1/receipts/root.
type rootReply struct {
	Object string `json:"object"`
	receipt.Month
}

// showRoot serves GET /v1/receipts/root.
func (a *API) showRoot(x *exchange, r *http.Request) error {
	query, now := r.URL.Query(), time.Now()
	month := now.UTC()
	if query.Has("month") {
		var err error
		if month, err = receiptMonth(query); err != nil {
			return err
		}
	}
	root, err := a.opts.Receipts.Root(r.Context(), x.caller.Account.ID, receipt.MonthOf(month), now)
	if err != nil {
		return err
	}
	return x.encode(rootReply{"receipts.root", root})
}
