package cmd_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// A worker is killed again and again while lines of a file go through a topic into objects: in the end each stands in one object.
func TestKillsPutEachRecordIntoOneObject(t *testing.T) {
	server := peers.S3(t)
	folder := peers.Unique(t, "kills")
	killsWhileFilesAreWritten(t, map[string]string{"connector.class": "io.confluent.connect.s3.S3SinkConnector", "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
		"s3.bucket.name": server.Bucket, "s3.region": server.Region, "store.url": server.URL, "topics.dir": folder,
		"aws.access.key.id": server.AccessKey, "aws.secret.access.key": server.SecretKey}, func() []string { return objectLines(t, server, folder) })
}

// killsWhileFilesAreWritten kills a worker again and again while lines go into files of 50. stored are the lines in those that are visible: in the end
// it is each line once.
func killsWhileFilesAreWritten(t *testing.T, sink map[string]string, stored func() []string) {
	t.Helper()
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	r := newRuns(t, "--config", "offset.flush.interval.ms=200")
	p := r.start(t)
	p.create("src", fileSource("in.txt", "lines"))
	maps.Copy(sink, map[string]string{"topics": "lines", "tasks.max": "1", "value.converter": "org.apache.kafka.connect.storage.StringConverter", "flush.size": "50"})
	p.create("lake", sink)
	in := filepath.Join(r.dir, "in.txt")
	total := 0
	for range max(4, trial.Effort(6)) {
		var text strings.Builder
		for range 50 * (1 + rng.IntN(40)) {
			fmt.Fprintf(&text, "line %d\n", total)
			total++
		}
		appendTo(t, in, text.String())
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		p.kill()
		p = r.start(t)
	}
	var got []string
	last := fmt.Sprintf("%q", fmt.Sprintf("line %d", total-1))
	p.until("the last line is in a file, and so are those before it", 2*time.Minute, func() (bool, string) {
		got = stored()
		return slices.Contains(got, last), fmt.Sprintf("%d of %d", len(got), total)
	})
	var want []string
	for i := range total {
		want = append(want, fmt.Sprintf("%q", fmt.Sprintf("line %d", i)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: %d lines stand in files, want %d", seed, len(got), len(want))
	}
}

// objectLines are the lines of all objects of a folder.
func objectLines(t *testing.T, server *peers.S3Server, folder string) (out []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cl := s3.New(s3.Options{BaseEndpoint: &server.URL, Region: server.Region, UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	pages := s3.NewListObjectsV2Paginator(cl, &s3.ListObjectsV2Input{Bucket: &server.Bucket, Prefix: aws.String(folder + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			got, err := cl.GetObject(ctx, &s3.GetObjectInput{Bucket: &server.Bucket, Key: o.Key})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(got.Body)
			got.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")...)
		}
	}
	return out
}
