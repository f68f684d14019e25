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

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 stores files as objects in a bucket.
type S3 struct {
	*spool
	client *minio.Client
	bucket string
	// prefix is put in front of every name to form the object's key.
	prefix string
}

// S3Options name the bucket and the credentials.
type S3Options struct {
	Endpoint  string // such as https://s3.eu-central-1.amazonaws.com
	Region    string // if empty, the client asks the server
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
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: u.Scheme == "https", Region: o.Region, Transport: o.Transport, MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("the object store: %w", err)
	}
	// Leftovers of an earlier process can never be finished.
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty the folder for unfinished files: %w", err)
	}
	s, err := newSpool(dir)
	if err != nil {
		return nil, err
	}
	return &S3{spool: s, client: client, bucket: o.Bucket, prefix: o.Prefix}, nil
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
	// behind that are billed and that no listing shows.
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+name, f, info.Size, minio.PutObjectOptions{
		ContentType: "video/mp4", DisableMultipart: true,
	})
	if err != nil {
		return Info{}, trouble("store a file", err)
	}
	return info, nil
}

// Open opens an object for reading. It returns an error that wraps ErrNotExist if there is none.
// The object is fetched on demand, as far as the caller reads it. The caller closes it.
func (s *S3) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	object, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, trouble("open a file", err)
	}
	// GetObject sends no request yet. Stat does, and so finds out whether the object exists.
	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		return nil, trouble("open a file", err)
	}
	return object, nil
}

// Delete removes an object and its unfinished local version. An object that does not exist is not
// an error.
func (s *S3) Delete(ctx context.Context, name string) error {
	if err := s.remove(name); err != nil {
		return fmt.Errorf("delete an unfinished file: %w", err)
	}
	err := trouble("delete a file", s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// Check reports, with a nil error, that the bucket exists and can be reached.
func (s *S3) Check(ctx context.Context) error {
	found, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !found {
		return fmt.Errorf("there is no bucket %q", s.bucket)
	}
	return trouble("check the bucket", err)
}

// trouble wraps an error with what was attempted. The client library's errors may contain URLs that
// include the access key, so only the status and code of the reply are kept.
func trouble(what string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	// Callers test for this one, so it keeps its identity. So do the errors of a canceled context.
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", what, ErrNotExist)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	case answer.StatusCode != 0:
		return fmt.Errorf("%s: the object store answered %d %s", what, answer.StatusCode, answer.Code)
	}
	// A url.Error begins with the URL; keep only the reason.
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("%s: the object store cannot be reached: %s", what, strings.TrimSpace(err.Error()))
}
