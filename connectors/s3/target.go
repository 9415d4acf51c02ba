package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema"
	"millrace/schema/config"
)

const (
	atOnce = 4 // requests of one Commit that are under way

	// What an object says of itself, as user metadata.
	metaLast      = "millrace-last-offset"
	metaRecords   = "millrace-records"
	metaFirstTime = "millrace-first-timestamp" // of the first record in the log, in milliseconds: it tells topics of one name apart

	abortTime = 20 * time.Second // for giving up an upload after the task was told to stop
)

// target makes objects visible in a bucket. Its methods may be called concurrently.
type target struct {
	cl       *s3.Client
	lg       *slog.Logger
	bucket   *string
	partSize int64
	once     bool // an object that is there is not overwritten
	clock    bool // files end by the clock: an object of ours may be there with other records, which come again, and gives way
	acl      types.ObjectCannedACL
	class    types.StorageClass
	sse      types.ServerSideEncryption
	kms      *string
	customer customer
	tags     url.Values // nil: no tags
}

// customer is an encryption key of one's own, as requests have it.
type customer struct{ algorithm, key, md5 *string }

// newTarget makes a target. clock says that files end by the clock.
func newTarget(ctx context.Context, cc connectors.Context, v config.Values, clock bool) (*target, error) {
	cl, err := newClient(ctx, cc, v)
	if err != nil {
		return nil, err
	}
	t := &target{cl: cl, lg: cc.Log, bucket: aws.String(bucketName.Get(v)), partSize: partSize.Get(v), once: conditional.Get(v), clock: clock, sse: types.ServerSideEncryption(sse.Get(v))}
	if t.acl, err = cannedACL(acl.Get(v)); err != nil {
		return nil, connectors.BadConfig(err)
	}
	if t.class, err = objectClassOf(objectClass.Get(v)); err != nil {
		return nil, connectors.BadConfig(err)
	}
	if id := kmsKey.Get(v); id != "" {
		t.kms = &id
	}
	key, err := customerKey(v)
	if err != nil {
		return nil, connectors.BadConfig(err)
	}
	if key != nil {
		sum := md5.Sum(key) // the protocol wants it
		t.customer = customer{aws.String("AES256"), aws.String(base64.StdEncoding.EncodeToString(key)), aws.String(base64.StdEncoding.EncodeToString(sum[:]))}
		t.sse = "" // the key says it
	}
	if tagging.Get(v) {
		if t.tags, err = tagsOf(tagPairs.Get(v)); err != nil {
			return nil, connectors.BadConfig(err)
		}
	}
	return t, nil
}

// Close implements warehouse.Target.
func (t *target) Close() {}

// Commit implements warehouse.Target.
func (t *target) Commit(ctx context.Context, _ connectors.TopicPartition, files []warehouse.File, moving func()) error {
	places := make(chan struct{}, atOnce)
	return each(ctx, len(files), func(i int) error { return t.store(ctx, &files[i], places, moving) })
}

// each calls f for 0 to n-1, several at once, and returns the first error. After it no further one is begun; those under way
// come to their end: a part whose request is cut off may be stored after its upload was given up.
func each(ctx context.Context, n int, f func(i int) error) error {
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	failed := make(chan struct{})
	next := make(chan int)
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					once.Do(func() {
						first = err
						close(failed)
					})
				}
			}
		})
	}
	for i := 0; i < n; i++ {
		select {
		case next <- i:
		case <-failed:
			i = n
		case <-ctx.Done():
			i = n
		}
	}
	close(next)
	wg.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// store makes one file an object.
func (t *target) store(ctx context.Context, f *warehouse.File, places chan struct{}, moving func()) error {
	err := t.send(ctx, f, t.once, places, moving)
	if err != nil && t.once && statusOf(err) == http.StatusPreconditionFailed {
		again, wrong := t.adopt(ctx, f)
		if !again {
			return wrong
		}
		err = t.send(ctx, f, false, places, moving)
	}
	if err == nil {
		moving()
		return nil
	}
	return failure(fmt.Sprintf("write object %q (%d bytes) of bucket %q", f.Name, f.Size, *t.bucket), err)
}

// send makes one file an object; with ifNew only where there is none of that name.
func (t *target) send(ctx context.Context, f *warehouse.File, ifNew bool, places chan struct{}, moving func()) error {
	var cond *string
	if ifNew {
		cond = aws.String("*")
	}
	if f.Size > t.partSize {
		return t.parts(ctx, f, cond, places, moving)
	}
	places <- struct{}{}
	defer func() { <-places }()
	return t.put(ctx, f, cond)
}

func statusOf(err error) int {
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		return resp.HTTPStatusCode()
	}
	return 0
}

func (t *target) metadata(f *warehouse.File) map[string]string {
	m := map[string]string{metaLast: strconv.FormatInt(f.Last, 10), metaRecords: strconv.FormatInt(f.Records, 10)}
	if f.FirstTime != schema.NoTimestamp {
		m[metaFirstTime] = strconv.FormatInt(f.FirstTime, 10)
	}
	return m
}

// tagging is the tags of an object as a header has them.
func (t *target) tagging(f *warehouse.File) *string {
	if t.tags == nil {
		return nil
	}
	tags := maps.Clone(t.tags)
	tags.Set("startOffset", strconv.FormatInt(f.First, 10))
	tags.Set("endOffset", strconv.FormatInt(f.Last, 10))
	tags.Set("recordCount", strconv.FormatInt(f.Records, 10))
	return aws.String(tags.Encode())
}

// put sends an object in one request.
func (t *target) put(ctx context.Context, f *warehouse.File, cond *string) error {
	done, err := t.cl.PutObject(ctx, &s3.PutObjectInput{Bucket: t.bucket, Key: &f.Name, Body: io.NewSectionReader(f.Body, 0, f.Size), ContentLength: &f.Size,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, Metadata: t.metadata(f), Tagging: t.tagging(f), IfNoneMatch: cond, ACL: t.acl, StorageClass: t.class,
		ServerSideEncryption: t.sse, SSEKMSKeyId: t.kms, SSECustomerAlgorithm: t.customer.algorithm, SSECustomerKey: t.customer.key, SSECustomerKeyMD5: t.customer.md5})
	if err == nil && aws.ToString(done.ETag) == "" {
		err = errSaysNothing
	}
	return err
}

// maxParts is the most parts of an object.
const maxParts = 10_000

// parts sends an object in parts, several at once. What was sent is given up after an error.
func (t *target) parts(ctx context.Context, f *warehouse.File, cond *string, places chan struct{}, moving func()) (err error) {
	size := max(t.partSize, (f.Size+maxParts-1)/maxParts)
	up, err := t.cl.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: t.bucket, Key: &f.Name, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		Metadata: t.metadata(f), Tagging: t.tagging(f), ACL: t.acl, StorageClass: t.class, ServerSideEncryption: t.sse, SSEKMSKeyId: t.kms,
		SSECustomerAlgorithm: t.customer.algorithm, SSECustomerKey: t.customer.key, SSECustomerKeyMD5: t.customer.md5})
	if err == nil && aws.ToString(up.UploadId) == "" {
		err = errSaysNothing
	}
	if err != nil {
		if statusOf(err) < 300 { // it may have begun, and nobody knows its id
			t.sweep(ctx, f.Name, []string{path.Base(f.Name)})
		}
		return err
	}
	defer func() {
		if err != nil {
			t.abort(ctx, f.Name, up.UploadId)
		}
	}()
	sent := make([]types.CompletedPart, (f.Size+size-1)/size)
	err = each(ctx, len(sent), func(i int) error {
		places <- struct{}{}
		defer func() { <-places }()
		from := int64(i) * size
		n := min(size, f.Size-from)
		number := aws.Int32(int32(i + 1))
		part, err := t.cl.UploadPart(ctx, &s3.UploadPartInput{Bucket: t.bucket, Key: &f.Name, UploadId: up.UploadId, PartNumber: number,
			Body: io.NewSectionReader(f.Body, from, n), ContentLength: &n, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
			SSECustomerAlgorithm: t.customer.algorithm, SSECustomerKey: t.customer.key, SSECustomerKeyMD5: t.customer.md5})
		if err != nil {
			return err
		}
		if aws.ToString(part.ETag) == "" {
			return errSaysNothing
		}
		sent[i] = types.CompletedPart{PartNumber: number, ETag: part.ETag, ChecksumCRC32: part.ChecksumCRC32}
		moving()
		return nil
	})
	if err != nil {
		return err
	}
	done, err := t.cl.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: t.bucket, Key: &f.Name, UploadId: up.UploadId, IfNoneMatch: cond,
		MultipartUpload:      &types.CompletedMultipartUpload{Parts: sent},
		SSECustomerAlgorithm: t.customer.algorithm, SSECustomerKey: t.customer.key, SSECustomerKeyMD5: t.customer.md5})
	if err == nil && aws.ToString(done.ETag) == "" {
		err = errSaysNothing
	}
	return err
}

// abort gives up an upload, also when ctx has ended.
func (t *target) abort(ctx context.Context, key string, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	if _, err := t.cl.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: t.bucket, Key: &key, UploadId: id}); err != nil && statusOf(err) != http.StatusNotFound {
		t.lg.Warn("an upload could not be given up; its parts take space until the bucket's lifecycle removes them", "object", key, "upload", aws.ToString(id), "err", cause(err))
	}
}

// adopt takes an object that is there for the file's, if it is from the same records. again says that it is to be replaced.
func (t *target) adopt(ctx context.Context, f *warehouse.File) (again bool, err error) {
	doing := fmt.Sprintf("look at object %q of bucket %q, which is there already", f.Name, *t.bucket)
	head, err := t.cl.HeadObject(ctx, &s3.HeadObjectInput{Bucket: t.bucket, Key: &f.Name,
		SSECustomerAlgorithm: t.customer.algorithm, SSECustomerKey: t.customer.key, SSECustomerKeyMD5: t.customer.md5})
	if err != nil {
		return false, failure(doing, err)
	}
	want := t.metadata(f)
	said := map[string]string{}
	for key, value := range head.Metadata {
		said[strings.ToLower(key)] = value
	}
	last, began, begins := said[metaLast], said[metaFirstTime], want[metaFirstTime]
	switch {
	case began != "" && begins != "" && began != begins:
		return false, warehouse.OffsetsBehind(fmt.Sprintf("object %q of bucket %q is there already, and its record at offset %d has the timestamp %s, where the one that comes has %s", f.Name, *t.bucket, f.First, began, begins))
	case last == want[metaLast] && said[metaRecords] == want[metaRecords]:
		t.lg.Info("the object is there already, from before a restart", "object", f.Name, "records", f.Records)
		return false, nil
	case last != "" && t.clock:
		t.lg.Info("the object is there already, from before a restart, and ended elsewhere; it is replaced", "object", f.Name, "up_to", last, "now_up_to", f.Last)
		return true, nil
	}
	has := "nothing of offsets: another program made it"
	if last != "" {
		has = fmt.Sprintf("that it has %s records up to offset %s", said[metaRecords], last)
	}
	return false, connectors.Failed(&foreign, nil, fmt.Sprintf("object %q of bucket %q is there already and says %s; this task has %d records up to offset %d for it", f.Name, *t.bucket, has, f.Records, f.Last), "")
}

// sweep gives up uploads that tasks before this one left behind, of partitions that are this task's now.
func (t *target) sweep(ctx context.Context, folder string, bases []string) {
	var key, id *string
	for range 100 {
		out, err := t.cl.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: t.bucket, Prefix: &folder, KeyMarker: key, UploadIdMarker: id})
		if err != nil {
			t.lg.Debug("uploads that were left behind cannot be looked for", "folder", folder, "err", cause(err))
			return
		}
		for _, up := range out.Uploads {
			name := aws.ToString(up.Key)
			base := name[strings.LastIndexByte(name, '/')+1:]
			if slices.ContainsFunc(bases, func(b string) bool { return strings.HasPrefix(base, b) }) {
				t.lg.Info("an upload that was left behind is given up", "object", name)
				t.abort(ctx, name, up.UploadId)
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return
		}
		key, id = out.NextKeyMarker, out.NextUploadIdMarker
	}
}
