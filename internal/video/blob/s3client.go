package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// s3Client speaks the part of S3's protocol that files need: put, get, head and delete of an object, and
// head of a bucket. A whole client library would add 1.3 MB to the binary and 15 modules to trust.
type s3Client struct {
	http   *http.Client
	base   url.URL // scheme and host
	keys   aws.Credentials
	signer *v4.Signer
	// region is the one that requests are signed for. A store that belongs to another one says which.
	region atomic.Pointer[string]
}

const (
	// defaultRegion is what stores without regions expect.
	defaultRegion = "us-east-1"
	// attempts is how often a request is sent while the store fails or cannot be reached.
	attempts = 3
	// pause is the time before the second attempt. It doubles.
	pause = 200 * time.Millisecond
	// maxError is how many bytes of an error reply are read.
	maxError = 64 << 10
)

// emptySum is the SHA-256 of nothing, the body of most requests.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// s3Error is a reply that is no success. It holds nothing of the request.
type s3Error struct {
	status int
	code   string // S3's own, such as NoSuchKey; empty if there is none
	region string // where the bucket is, if the request was signed for another region
}

func (e *s3Error) Error() string { return fmt.Sprintf("%d %s", e.status, e.code) }

// newS3Client returns a client for an endpoint.
func newS3Client(endpoint *url.URL, o S3Options) *s3Client {
	region := o.Region
	if region == "" {
		region = defaultRegion
	}
	c := &s3Client{
		http: &http.Client{
			Transport: o.Transport,
			// The signature of a request does not fit another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base:   url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host},
		keys:   aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey},
		signer: v4.NewSigner(func(s *v4.SignerOptions) { s.DisableURIPathEscaping = true }),
	}
	c.region.Store(&region)
	return c
}

// address returns the URL of an object, or of the bucket if key is empty. Amazon wants the bucket in the
// host; others know it in the path at least.
func (c *s3Client) address(bucket, key string) *url.URL {
	u := c.base
	u.Path = "/" + bucket + "/" + key
	if strings.HasSuffix(u.Hostname(), ".amazonaws.com") && !strings.Contains(bucket, ".") {
		u.Host, u.Path = bucket+"."+u.Host, "/"+key
	}
	// The signature is made over this very form: everything escaped but letters, digits, -._~ and the slash.
	u.RawPath = escapeKey(u.Path)
	return &u
}

// escapeKey escapes a path as S3 does for signatures.
func escapeKey(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// s3Request is a request before it is signed.
type s3Request struct {
	method, bucket, key string
	header              map[string]string
	// body may be nil. It is read from its beginning for each attempt. sum is its SHA-256 in hexadecimal.
	body io.ReadSeeker
	size int64
	sum  string
}

// do sends a request until it has an answer that another attempt would not change. The caller closes the
// body of the reply. Every request that we make may be repeated.
func (c *s3Client) do(ctx context.Context, r *s3Request) (*http.Response, error) {
	wait := pause
	for n := 1; ; n++ {
		resp, err := c.send(ctx, r)
		if err == nil {
			return resp, nil
		}
		if n == attempts || !c.again(err) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// again reports whether a request that failed may succeed when it is sent once more. It notes the region
// that a store wants.
func (c *s3Client) again(err error) bool {
	refused, ok := errors.AsType[*s3Error](err)
	if !ok {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	if refused.region != "" && refused.region != *c.region.Load() {
		c.region.Store(&refused.region)
		return true
	}
	return refused.status == http.StatusTooManyRequests || refused.status >= 500
}

// send signs and sends a request once.
func (c *s3Client) send(ctx context.Context, r *s3Request) (*http.Response, error) {
	req := (&http.Request{Method: r.method, URL: c.address(r.bucket, r.key), Header: http.Header{"User-Agent": {"sluice"}}}).WithContext(ctx)
	req.Host = req.URL.Host
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	sum := emptySum
	if r.body != nil {
		if _, err := r.body.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		// NopCloser: the transport closes bodies, but this one is needed for the next attempt.
		req.Body, req.ContentLength, sum = io.NopCloser(r.body), r.size, r.sum
	}
	req.Header.Set("X-Amz-Content-Sha256", sum)
	if err := c.signer.SignHTTP(ctx, c.keys, req, sum, "s3", *c.region.Load(), time.Now()); err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return nil, err
	}
	refused := &s3Error{status: resp.StatusCode, code: element(text, "Code"), region: element(text, "Region")}
	if refused.region == "" {
		refused.region = resp.Header.Get("X-Amz-Bucket-Region")
	}
	return nil, refused
}

// element returns the text of an element of an error reply, which is XML without nesting or attributes.
func element(text []byte, name string) string {
	_, rest, _ := strings.Cut(string(text), "<"+name+">")
	value, _, ok := strings.Cut(rest, "</"+name+">")
	if !ok || len(value) > 100 {
		return ""
	}
	return value
}

// put creates or replaces an object.
func (c *s3Client) put(ctx context.Context, bucket, key string, body io.ReadSeeker, info Info) error {
	resp, err := c.do(ctx, &s3Request{
		method: http.MethodPut, bucket: bucket, key: key, body: body, size: info.Size, sum: info.SHA256,
		header: map[string]string{"Content-Type": "video/mp4"},
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// remove deletes an object. S3 calls it a success if there is none.
func (c *s3Client) remove(ctx context.Context, bucket, key string) error {
	resp, err := c.do(ctx, &s3Request{method: http.MethodDelete, bucket: bucket, key: key})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// exists reports whether there is a bucket.
func (c *s3Client) exists(ctx context.Context, bucket string) (bool, error) {
	resp, err := c.do(ctx, &s3Request{method: http.MethodHead, bucket: bucket})
	if refused, ok := errors.AsType[*s3Error](err); ok && refused.status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, resp.Body.Close()
}

// open returns an object for reading. It asks for the size now, and for the content when it is read.
func (c *s3Client) open(ctx context.Context, bucket, key string) (*object, error) {
	resp, err := c.do(ctx, &s3Request{method: http.MethodHead, bucket: bucket, key: key})
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	return &object{client: c, ctx: ctx, bucket: bucket, key: key, size: resp.ContentLength, tag: resp.Header.Get("ETag")}, nil
}

// object is an object that is read. It is used by one goroutine.
type object struct {
	client      *s3Client
	ctx         context.Context //nolint:containedctx // of the caller who opened it
	bucket, key string
	size        int64
	tag         string // of the version that was opened; another one is refused
	offset      int64
	body        io.ReadCloser // from offset on; nil if nothing was asked for
}

// Read implements io.Reader. The first Read after a Seek sends a request for the rest of the object.
func (o *object) Read(p []byte) (int, error) {
	if o.offset >= o.size {
		return 0, io.EOF
	}
	if o.body == nil {
		header := map[string]string{"Range": "bytes=" + strconv.FormatInt(o.offset, 10) + "-"}
		if o.tag != "" {
			header["If-Match"] = o.tag
		}
		resp, err := o.client.do(o.ctx, &s3Request{method: http.MethodGet, bucket: o.bucket, key: o.key, header: header})
		if err != nil {
			return 0, trouble("read a file", err)
		}
		if resp.StatusCode != http.StatusPartialContent && o.offset > 0 {
			resp.Body.Close()
			return 0, errors.New("read a file: the object store ignores ranges")
		}
		o.body = resp.Body
	}
	n, err := o.body.Read(p)
	o.offset += int64(n)
	if err == io.EOF && o.offset < o.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Seek implements io.Seeker.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.offset
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a file")
	}
	if offset != o.offset {
		o.Close()
		o.offset = offset
	}
	return offset, nil
}

// Close ends the request that is being read, if there is one.
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}
	err := o.body.Close()
	o.body = nil
	return err
}
