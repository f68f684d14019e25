package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/receipt"
	"sluice/internal/operate/admin"
)

const (
	// mostReceipts bounds what is read of one file or reply, in bytes.
	mostReceipts = 1 << 30
	// receiptPatience is how long a server may take for one reply.
	receiptPatience = time.Minute
)

// receiptCmd groups the commands about the receipts of calls.
func (p *program) receiptCmd() *cobra.Command {
	return group("receipt", "Check receipts of calls, and manage the keys that sign them", p.receiptVerifyCmd(),
		group("keys", "Manage the keys that sign receipts",
			does(p, &cobra.Command{Use: "list", Short: "List the keys that sign receipts, or did"}, p.ops.ReceiptKeys, &admin.Empty{}, printReceiptKeys),
			does(p, &cobra.Command{
				Use: "rotate", Short: "Make a new key to sign receipts with",
				Long: `Make a new key to sign receipts with. It is published at once, and signs after two
minutes, when every node publishes it. The keys before it stay published, so their
receipts stay valid; the key that signs until then is deleted with the next rotation,
and those before it now.`,
			}, p.ops.ReceiptRotate, &admin.Empty{}, printReceiptKeys)))
}

// printReceiptKeys prints keys as a table.
func printReceiptKeys(w io.Writer, out *admin.ReceiptKeys) {
	rows := [][]string{{"KEY", "STATUS", "SIGNS FROM (UTC)"}}
	for _, k := range out.Keys {
		rows = append(rows, []string{k.ID, k.Status, secondText(k.SignsFrom)})
	}
	table(w, rows)
}

// receiptCheck has the arguments and flags of the command.
type receiptCheck struct {
	sources                        []string
	keys, url, key, request, reply string
	root                           string
}

// receiptVerifyCmd checks receipts without the database, and without a server if the keys are in a file.
func (p *program) receiptVerifyCmd() *cobra.Command {
	o := &receiptCheck{}
	cmd := &cobra.Command{
		Use: "verify FILE…", Short: "Check the signatures, links and bodies of receipts",
		Args: cobra.ArbitraryArgs,
		Long: `Check receipts in files: one a line, the replies of GET /v1/receipts, the headers of
a reply, or a saved stream. - reads from standard input. A URL below --url is
fetched with the key of SLUICE_KEY or --key, with all its pages.

Each receipt must be signed with one of the operator's keys, and those of a chain
must follow one another. --request and --reply compare the bodies of one call.
--root checks that the receipts are all of an account and month: the root is on the
invoice, and in the reply of GET /v1/receipts/root.

With --keys nothing is sent anywhere. A receipt that is in order says what the
operator attests, and no more. The exit code is 1 if anything is not in order.`,
		Example: "  sluice receipt verify receipt.txt --keys keys.json --request request.json --reply reply.json\n" +
			"  sluice receipt verify 'https://api.example.com/v1/receipts?month=2026-11' --url https://api.example.com --root 5d0c…",
		RunE: func(c *cobra.Command, given []string) error {
			o.sources = given
			return p.verifyReceipts(c, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.keys, "keys", "", "`file` with the operator's public keys")
	flags.StringVar(&o.url, "url", "", "`origin` of the service, to fetch the public keys from")
	flags.StringVar(&o.key, "key", "", "API `key` for receipts that are fetched (default $SLUICE_KEY)")
	flags.StringVar(&o.request, "request", "", "`file` with the body of the request")
	flags.StringVar(&o.reply, "reply", "", "`file` with the body of the reply, or the file of a video")
	flags.StringVar(&o.root, "root", "", "`hash` of all receipts of an account and month")
	return cmd
}

// receiptResult is what was found out about one receipt.
type receiptResult struct {
	Source  string          `json:"source"`
	ID      string          `json:"id,omitempty"`
	Problem receipt.Problem `json:"problem,omitempty"`
	Message string          `json:"message,omitempty"`
	Claims  *receipt.Claims `json:"claims,omitempty"`
}

// receiptReport is the result of the command.
type receiptReport struct {
	OK       bool            `json:"ok"`
	Receipts []receiptResult `json:"receipts"`
	// Problems are those of several receipts together.
	Problems []receiptResult `json:"problems"`
}

// note adds a problem.
func note(to *[]receiptResult, source, id string, err error) {
	for _, e := range split(err) {
		r := receiptResult{Source: source, ID: id, Problem: receipt.Unread, Message: e.Error()}
		if f, ok := errors.AsType[*receipt.Fault](e); ok {
			r.Problem = f.Problem
		}
		*to = append(*to, r)
	}
}

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of errors.Join itself
		return joined.Unwrap()
	}
	return []error{err}
}

// verifyReceipts checks the receipts of all sources.
func (p *program) verifyReceipts(c *cobra.Command, o *receiptCheck) error {
	switch {
	case len(o.sources) == 0:
		return misused(c, errors.New("FILE is missing"))
	case (o.keys == "") == (o.url == ""):
		return misused(c, errors.New("say whose receipts they are: --keys FILE with the operator's public keys, or --url ORIGIN to fetch them"))
	}
	keys, err := o.readKeys(c.Context())
	if err != nil {
		return err
	}
	out := receiptReport{Receipts: []receiptResult{}, Problems: []receiptResult{}}
	var good []*receipt.Receipt
	bad := 0
	for _, source := range o.sources {
		found, err := o.read(c.Context(), c.InOrStdin(), source)
		if err != nil {
			return err
		}
		for _, signed := range found {
			r, err := keys.Check(signed)
			if err != nil {
				bad++
				note(&out.Receipts, source, "", err)
				continue
			}
			good = append(good, r)
			out.Receipts = append(out.Receipts, receiptResult{Source: source, ID: r.ID, Claims: &r.Claims})
		}
	}
	if err := o.together(good, bad); err != nil {
		note(&out.Problems, strings.Join(o.sources, " "), "", err)
	}
	out.OK = bad+len(out.Problems) == 0
	return p.judge(out, out.OK, func(w io.Writer) { printReceipts(w, &out) })
}

// together checks what several receipts, or one and its bodies, say together.
func (o *receiptCheck) together(good []*receipt.Receipt, bad int) error {
	for _, body := range []struct {
		file  string
		check func(*receipt.Receipt, []byte) error
	}{{o.request, (*receipt.Receipt).CheckRequest}, {o.reply, (*receipt.Receipt).CheckReply}} {
		if body.file == "" {
			continue
		}
		if len(good) != 1 {
			return fmt.Errorf("--request and --reply need one receipt whose signature is right; there are %d", len(good))
		}
		raw, err := os.ReadFile(body.file)
		if err != nil {
			return err
		}
		if err := body.check(good[0], raw); err != nil {
			return err
		}
	}
	if o.root != "" && bad == 0 {
		return receipt.CheckMonth(good, o.root)
	}
	_, err := receipt.CheckChains(good, false)
	return err
}

// printReceipts prints the result for people.
func printReceipts(w io.Writer, out *receiptReport) {
	for _, r := range out.Receipts {
		if r.Problem != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", r.Source, r.Problem, r.Message)
			continue
		}
		cost := "no price"
		if r.Claims.Cost != nil {
			cost = "$" + r.Claims.Cost.String()
		}
		fmt.Fprintf(w, "%s: in order: %s, %s, %s, number %d of chain %s\n", r.Source, r.ID, r.Claims.Served, cost, r.Claims.N, r.Claims.Chain)
	}
	for _, r := range out.Problems {
		fmt.Fprintf(w, "%s: %s\n", r.Problem, r.Message)
	}
	if out.OK {
		fmt.Fprintf(w, "%s in order. The operator attests what they say, and no more.\n", counted(len(out.Receipts), "receipt"))
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return strconv.Itoa(n) + " " + noun + "s are"
}

// readKeys returns the public keys of the operator.
func (o *receiptCheck) readKeys(ctx context.Context) (receipt.Set, error) {
	if o.keys != "" {
		raw, err := os.ReadFile(o.keys)
		if err != nil {
			return nil, err
		}
		return receipt.ParseSet(raw)
	}
	raw, err := o.fetch(ctx, strings.TrimSuffix(o.url, "/")+"/.well-known/sluice-receipts.json", false)
	if err != nil {
		return nil, err
	}
	return receipt.ParseSet(raw)
}

// read returns the receipts of a file or URL.
func (o *receiptCheck) read(ctx context.Context, stdin io.Reader, source string) (found []string, err error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		found, err = o.readPages(ctx, source)
	} else {
		var raw []byte
		if source == "-" {
			raw, err = io.ReadAll(io.LimitReader(stdin, mostReceipts))
		} else {
			raw, err = os.ReadFile(source)
		}
		found = receipt.Find(raw)
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there is no receipt in %s; a receipt is a text of three parts that begins with eyJ", source)
	}
	return found, err
}

// readPages returns the receipts of a list, with all its pages.
func (o *receiptCheck) readPages(ctx context.Context, source string) (found []string, err error) {
	u, err := url.Parse(source)
	if err != nil {
		return nil, err
	}
	if o.url == "" || u.Scheme+"://"+u.Host != strings.TrimSuffix(o.url, "/") {
		return nil, fmt.Errorf("%s is not below --url; the API key is sent nowhere else", source)
	}
	for {
		raw, err := o.fetch(ctx, u.String(), true)
		if err != nil {
			return nil, err
		}
		more := receipt.Find(raw)
		var page struct{ Next string }
		if json.Unmarshal(raw, &page) != nil || page.Next == "" || len(more) == 0 {
			return append(found, more...), nil
		}
		found = slices.Concat(found, more)
		query := u.Query()
		query.Set("cursor", page.Next)
		u.RawQuery = query.Encode()
	}
}

// fetch returns the body of a reply.
func (o *receiptCheck) fetch(ctx context.Context, address string, withKey bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, receiptPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if key := o.key; withKey {
		if key == "" {
			key = os.Getenv("SLUICE_KEY")
		}
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostReceipts))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	return raw, err
}
