package warehouse

import (
	"bytes"

	"github.com/parquet-go/parquet-go"
)

// A looseType is a type of bytes whose columns have no bounds that a reader could leave out rows by. The library orders decimals as
// bytes, where Parquet orders them as numbers, and it writes the bounds of texts in full, so that a file of long texts would have a
// footer that readers refuse. Where it writes no bounds it leaves empty ones in the index of pages, which are wrong; here they are the
// widest ones.
type looseType struct {
	parquet.Type
	low, high parquet.Value
}

// looseWidth is as wide as decimals get, in bytes: 76 digits.
const looseWidth = 32

func newLooseType(t parquet.Type, decimal bool) looseType {
	width := looseWidth
	if t.Kind() == parquet.FixedLenByteArray {
		width = t.Length()
	}
	low, high := make([]byte, width), bytes.Repeat([]byte{0xff}, width)
	if decimal {
		low[0], high[0] = 0x80, 0x7f
	} else if t.Kind() == parquet.ByteArray {
		low = nil
	}
	return looseType{t, parquet.ValueOf(low), parquet.ValueOf(high)}
}

// NewColumnIndexer implements parquet.Type.
func (t looseType) NewColumnIndexer(sizeLimit int) parquet.ColumnIndexer {
	return looseIndexer{t.Type.NewColumnIndexer(max(sizeLimit, len(t.high.ByteArray()))), t.low, t.high}
}

type looseIndexer struct {
	parquet.ColumnIndexer
	low, high parquet.Value
}

// IndexPage implements parquet.ColumnIndexer.
func (x looseIndexer) IndexPage(numValues, numNulls int64, _, _ parquet.Value) {
	if numValues == numNulls {
		x.ColumnIndexer.IndexPage(numValues, numNulls, parquet.Value{}, parquet.Value{})
		return
	}
	x.ColumnIndexer.IndexPage(numValues, numNulls, x.low, x.high)
}
