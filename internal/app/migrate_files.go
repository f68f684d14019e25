package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sluice/internal/blob"
	"sluice/internal/config"
	"sluice/internal/sqlstore"
	"sluice/internal/video"
)

const (
	// filePatience is how long copying one video may take.
	filePatience = 15 * time.Minute
	// videosAtOnce is how many jobs are read from the database at a time.
	videosAtOnce = 500
)

// MovedFiles is what became of the video files.
type MovedFiles struct {
	Copied int   `json:"copied"` // by this run
	Bytes  int64 `json:"bytes"`
	There  int   `json:"already_there"`
	// Missing are the ids of videos whose file is not in the source's storage; at most ten are named.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missing_count"`
	// Damaged are those whose file does not have the checksum that the job says. They are copied as they are.
	Damaged []string `json:"damaged,omitempty"`
}

// mostNamed bounds the lists in MovedFiles.
const mostNamed = 10

// moveFiles copies the files of all finished videos that are not at their new place yet.
func (m *Migration) moveFiles(ctx context.Context, cfg *config.Config, source *sqlstore.Store) (*MovedFiles, error) {
	// An object store's spool belongs to one process alone, and the server may be running.
	spool, err := os.MkdirTemp("", "sluice-migrate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(spool)
	from, err := openFiles(cfg.Blob, m.From, spool+"/from")
	if err != nil {
		return nil, err
	}
	to, err := openFiles(*m.Storage, m.From, spool+"/to")
	if err != nil {
		return nil, err
	}
	checking, cancel := context.WithTimeout(ctx, filesPatience)
	defer cancel()
	for _, f := range []files{from, to} {
		if err := f.Check(checking); err != nil {
			return nil, fmt.Errorf("the storage of videos cannot be used: %w; check --storage and the section blob of the configuration", err)
		}
	}
	all, _, err := countVideos(ctx, source)
	if err != nil {
		return nil, err
	}
	out := &MovedFiles{}
	done := int64(0)
	err = eachVideo(ctx, source, func(j *video.Job) error {
		m.Report("copying files", sqlstore.Progress{Table: "files", Rows: done, Of: int64(all), AllRows: done, AllOf: int64(all)})
		done++
		return out.add(ctx, from, to, j)
	})
	return out, err
}

// add copies the file of one video, unless it is there.
func (f *MovedFiles) add(ctx context.Context, from, to files, j *video.Job) error {
	ctx, cancel := context.WithTimeout(ctx, filePatience)
	defer cancel()
	if isThere(ctx, to, j) {
		f.There++
		return nil
	}
	in, err := from.Open(ctx, j.File())
	if errors.Is(err, blob.ErrNotExist) {
		if f.MissingCount++; len(f.Missing) < mostNamed {
			f.Missing = append(f.Missing, j.ID)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file of video %s: %w; run the same command again to continue", j.ID, err)
	}
	defer in.Close()
	info, err := to.Put(ctx, j.File(), func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil {
		return fmt.Errorf("the file of video %s: %w; run the same command again to continue", j.ID, err)
	}
	if (info.SHA256 != j.SHA256 || info.Size != j.Size) && len(f.Damaged) < mostNamed {
		f.Damaged = append(f.Damaged, j.ID)
	}
	f.Copied++
	f.Bytes += info.Size
	return nil
}

// isThere reports whether the whole file is at its new place. A file appears there as a whole or not at all, so its
// size is enough.
func isThere(ctx context.Context, to files, j *video.Job) bool {
	f, err := to.Open(ctx, j.File())
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	return err == nil && size == j.Size
}

// countVideos returns how many finished videos there are, and their size.
func countVideos(ctx context.Context, source *sqlstore.Store) (n int, bytes int64, err error) {
	err = eachVideo(ctx, source, func(j *video.Job) error {
		n++
		bytes += j.Size
		return nil
	})
	return n, bytes, err
}

// eachVideo calls work for every job that has a file.
func eachVideo(ctx context.Context, source *sqlstore.Store, work func(*video.Job) error) error {
	after := ""
	for {
		jobs, err := source.FinishedVideos(ctx, after, videosAtOnce)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for i := range jobs {
			if err := work(&jobs[i]); err != nil {
				return err
			}
		}
		after = jobs[len(jobs)-1].ID
	}
}
