package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
)

// S3 stores files as objects in a bucket.
// An object appears in the bucket when its upload is complete, which is what package blob promises
// of every file.
type S3 struct {
	*spool
	client *minio.Core
	bucket string
	// prefix is put in front of every name to form the object's key.
	prefix string
	// failing is when the first request failed since one succeeded, in Unix nanoseconds; 0: none.
	failing atomic.Int64
}

// S3Options name the bucket and the credentials.
type S3Options struct {
	Endpoint  string // such as https://s3.eu-central-1.amazonaws.com
	Region    string // if empty, the server says it
	Bucket    string
	Prefix    string // put in front of every object's key
	AccessKey string
	SecretKey string
	// Transport replaces the default HTTP transport in tests.
	Transport http.RoundTripper
}

// NewS3 returns an S3. Files are written to the folder dir first and uploaded in one request, so
// the bucket never contains unfinished objects. The folder must belong to this process alone:
// whatever an earlier process left in it is removed.
func NewS3(dir string, o S3Options) (*S3, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("the endpoint of the object store cannot be read; expected an address such as https://s3.example.com")
	}
	if o.Transport == nil {
		o.Transport = boundedTransport()
	}
	// Leftovers of an earlier process can never be finished.
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty the folder for unfinished files: %w", err)
	}
	client, err := newClient(u, o)
	if err != nil {
		return nil, fmt.Errorf("the endpoint of the object store cannot be used: %w", err)
	}
	return &S3{spool: &spool{dir}, client: client, bucket: o.Bucket, prefix: o.Prefix}, nil
}

// attempts is how often a request is sent while the store fails or cannot be reached.
const attempts = 3

// newClient returns a client for an endpoint, which follows no redirects.
func newClient(endpoint *url.URL, o S3Options) (*minio.Core, error) {
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:              credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""),
		Secure:             endpoint.Scheme == "https",
		Region:             o.Region,
		Transport:          o.Transport,
		MaxRetries:         attempts,
		BucketLookupViaURL: bucketLookup,
	})
	if err != nil {
		return nil, err
	}
	client.SetAppInfo("sluice", buildinfo.Version())
	// The library would go to other addresses of Amazon than the one that was named.
	client.SetS3EnableDualstack(strings.Contains(endpoint.Host, ".dualstack."))
	return client, nil
}

// bucketLookup says where a request names the bucket. Amazon wants it in the host; others know it in the path at least.
func bucketLookup(endpoint url.URL, bucket string) minio.BucketLookupType {
	if strings.HasSuffix(endpoint.Hostname(), ".amazonaws.com") && !strings.Contains(bucket, ".") {
		return minio.BucketLookupDNS
	}
	return minio.BucketLookupPath
}

// Put creates or replaces an object with what fill writes. When it returns an error from fill or
// from writing, nothing was uploaded.
func (s *S3) Put(ctx context.Context, name string, fill func(io.Writer) error) (Info, error) {
	aside, info, err := s.write(ctx, name, fill)
	if err != nil {
		return Info{}, err
	}
	defer os.Remove(aside)
	f, err := os.Open(aside)
	if err != nil {
		return Info{}, fmt.Errorf("reopen a file: %w", err)
	}
	defer f.Close()
	// One request instead of a multipart upload: an aborted multipart upload would leave parts
	// behind that are billed and that no listing shows. The sum of the whole file is signed, in place of sums of its parts.
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+name, f, info.Size, "", info.SHA256,
		minio.PutObjectOptions{ContentType: "video/mp4", DisableContentSha256: true})
	if err := s.note(trouble("store a file", err)); err != nil {
		return Info{}, err
	}
	return info, nil
}

// Open opens an object for reading. It returns an error that wraps ErrNotExist if there is none.
// The object is fetched on demand, as far as the caller reads it. The caller closes it.
func (s *S3) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	o, err := s.client.Client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.note(trouble("open a file", err))
	}
	// Nothing has been asked for yet. What is read later is of the version that is found now.
	_, err = o.Stat()
	if err := s.note(trouble("open a file", err)); err != nil {
		_ = o.Close() // nothing is read from it
		return nil, err
	}
	return object{o}, nil
}

// object is an object that is read. Its errors say no more than those of the other methods.
type object struct{ *minio.Object }

// Read implements io.Reader. The first Read after a Seek sends a request for the rest of the object.
func (o object) Read(p []byte) (int, error) {
	n, err := o.Object.Read(p)
	if err != nil && err != io.EOF {
		err = trouble("read a file", err)
	}
	return n, err
}

// Delete removes an object and its unfinished local version. An object that does not exist is not
// an error.
func (s *S3) Delete(ctx context.Context, name string) error {
	if err := s.remove(name); err != nil {
		return fmt.Errorf("delete an unfinished file: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	err := s.note(trouble("delete a file", s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})))
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// Check reports, with a nil error, that the bucket exists and can be reached.
func (s *S3) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	found, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !found {
		err = fmt.Errorf("there is no bucket %q", s.bucket)
		s.failing.CompareAndSwap(0, time.Now().UnixNano())
		return err
	}
	return s.note(trouble("check the bucket", err))
}

// note keeps whether the store answers, and returns err.
func (s *S3) note(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrNotExist):
		s.failing.Store(0)
	case !errors.Is(err, context.Canceled): // a caller who leaves says nothing
		s.failing.CompareAndSwap(0, time.Now().UnixNano())
	}
	return err
}

// Look says whether the store answers. It asks only if the last request failed: each costs money. Calls do not need
// the store, so it never fails.
func (s *S3) Look(ctx context.Context) (f health.Finding) {
	since := s.failing.Load()
	if since == 0 {
		return f
	}
	if f.Err = s.Check(ctx); f.Err != nil {
		f.Age = time.Since(time.Unix(0, since))
		f.Message = fmt.Sprintf("no file could be stored or read for %s; jobs wait", f.Age.Round(time.Second))
	}
	return f
}

// trouble wraps an error with what was attempted. Of a reply only the status and the code are kept.
func trouble(what string, err error) error {
	if err == nil {
		return nil
	}
	refused, answered := errors.AsType[minio.ErrorResponse](err)
	switch {
	// Callers test for this one, so it keeps its identity. So do the errors of a canceled context.
	case answered && refused.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", what, ErrNotExist)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	case answered:
		return fmt.Errorf("%s: the object store answered %d %s", what, refused.StatusCode, refused.Code)
	}
	// A url.Error begins with the URL; keep only the reason.
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("%s: the object store cannot be reached: %s", what, strings.TrimSpace(err.Error()))
}
