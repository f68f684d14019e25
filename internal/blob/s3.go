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

// S3 keeps files in a bucket of an object store.
type S3 struct {
	*spool
	client *minio.Client
	bucket string
	prefix string
}

// S3Options say where a bucket is and who asks.
type S3Options struct {
	Endpoint  string // such as https://s3.eu-central-1.amazonaws.com
	Region    string // empty: found out
	Bucket    string
	Prefix    string // of every object's name
	AccessKey string
	SecretKey string
	// Transport replaces the connections, for tests.
	Transport http.RoundTripper
}

// NewS3 returns the files of a bucket. They are written to the folder dir before they go up, in one step,
// so that nothing unfinished is ever in the bucket. The folder must be this process's own: what an earlier
// one left there is removed.
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
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty the folder for unfinished files: %w", err)
	}
	s, err := newSpool(dir)
	if err != nil {
		return nil, err
	}
	return &S3{spool: s, client: client, bucket: o.Bucket, prefix: o.Prefix}, nil
}

// Put makes an object of what fill writes; where it returns an error, there is none.
func (s *S3) Put(ctx context.Context, name string, fill func(io.Writer) error) (Info, error) {
	aside, info, err := s.write(ctx, name, fill)
	if err != nil {
		return Info{}, err
	}
	defer os.Remove(aside)
	f, err := os.Open(aside)
	if err != nil {
		return Info{}, fmt.Errorf("read a file again: %w", err)
	}
	defer f.Close()
	_, err = s.client.PutObject(ctx, s.bucket, s.prefix+name, f, info.Size, minio.PutObjectOptions{
		ContentType: "video/mp4", DisableMultipart: true,
	})
	if err != nil {
		return Info{}, trouble("store a file", err)
	}
	return info, nil
}

// Open opens an object; ErrNotExist where there is none. It is read piece by piece, as far as it is asked for.
func (s *S3) Open(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	object, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, trouble("open a file", err)
	}
	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		return nil, trouble("open a file", err)
	}
	return object, nil
}

// Delete removes an object and what is unfinished of it here. One that is not there is no error.
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

// Check reports whether the bucket can be reached.
func (s *S3) Check(ctx context.Context) error {
	found, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !found {
		return fmt.Errorf("there is no bucket %q", s.bucket)
	}
	return trouble("look for the bucket", err)
}

// trouble says what was tried and what the store answered. Its own errors may repeat addresses with the
// access key in them, so only their codes are kept.
func trouble(what string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", what, ErrNotExist)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	case answer.StatusCode != 0:
		return fmt.Errorf("%s: the object store answered %d %s", what, answer.StatusCode, answer.Code)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("%s: the object store cannot be reached: %s", what, strings.TrimSpace(err.Error()))
}
