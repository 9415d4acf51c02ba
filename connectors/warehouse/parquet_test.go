package warehouse

import (
	"bytes"
	"testing"

	"github.com/parquet-go/parquet-go"

	"millrace/schema"
)

func TestX(t *testing.T) {
	f := newFolders()
	var records []schema.Record
	for o := range int64(20_000) {
		records = append(records, row(o, 2))
	}
	put(t, f, conf("format.class", "ParquetFormat", "flush.size", "20000"), records)
	b := f.files["topics/t/partition=0/t+0+0000000000.snappy.parquet"]
	p, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.Schema(), p.NumRows())
}
