package batch

// Check says what Validate looks at beyond header, size and checksum.
type Check struct {
	MaxBytes int  // largest batch; 0: no limit
	Keys     bool // every record has a key (compacted topics); opens compressed batches
	Client   bool // the batch comes from a client: no control batch, no delete horizon; a producer id comes with a sequence
}

// Validate checks one batch as a broker must before it stores it: length,
// checksum, magic, codec, offset delta against count, producer fields, and the
// records themselves when they are uncompressed or c asks for their keys.
// It allocates nothing but for decompression. Errors are *Error.
func (v View) Validate(c Check) error {
	if err := v.CheckFrame(); err != nil {
		return err
	}
	if c.MaxBytes > 0 && len(v) > c.MaxBytes {
		return &Error{Code: MessageTooLarge, Reason: tooLarge(len(v), c.MaxBytes)}
	}
	if v.Count() <= 0 || v.LastOffsetDelta() != v.Count()-1 {
		return invalid("batch of %d records with last offset delta %d", v.Count(), v.LastOffsetDelta())
	}
	if v.Codec() > Zstd {
		return &Error{Code: UnsupportedCompression, Reason: "unknown " + v.Codec().String()}
	}
	if c.Client && (v.IsControl() || v.HasDeleteHorizon()) {
		return invalid("control batches and delete horizons are written by the log alone")
	}
	if v.HasProducer() {
		if v.ProducerID() < 0 || v.ProducerEpoch() < 0 || (v.BaseSequence() < 0 && c.Client) {
			return invalid("producer id %d with epoch %d and sequence %d", v.ProducerID(), v.ProducerEpoch(), v.BaseSequence())
		}
	} else if v.Transactional() {
		return invalid("transactional batch without a producer id")
	}
	if v.IsControl() {
		return v.CheckControl()
	}
	if v.Codec() == None || c.Keys {
		return v.walk(c.Keys)
	}
	return nil
}

// CheckFrame checks what every stored batch fulfils, compacted or not: its length is that of v,
// the magic is 2, the offset delta is not negative, the checksum is right.
func (v View) CheckFrame() error {
	if len(v) < HeaderSize || v.Size() != len(v) {
		return corrupt("batch of %d bytes does not have the length its header names", len(v))
	}
	if v.MagicByte() != Magic {
		return corrupt("batch at offset %d: magic %d, want %d", v.BaseOffset(), v.MagicByte(), Magic)
	}
	if v.LastOffsetDelta() < 0 || v.Count() < 0 {
		return corrupt("batch at offset %d: count %d, last offset delta %d", v.BaseOffset(), v.Count(), v.LastOffsetDelta())
	}
	if got := v.ComputeCRC(); got != v.CRC() {
		return corrupt("batch at offset %d: crc %08x, want %08x", v.BaseOffset(), got, v.CRC())
	}
	return nil
}

// walk checks the records one by one.
func (v View) walk(keys bool) error {
	data, err := v.inflated()
	if err != nil {
		return err
	}
	r := reader{b: data}
	n := v.Count()
	for i := int32(0); i < n; i++ {
		var f fields
		r.record(&f)
		if r.bad == "" && f.nHeaders > 0 {
			r.bad = f.skipHeaders()
		}
		if r.bad != "" {
			return invalid("batch of %d records: record %d: %s", n, i, r.bad)
		}
		if f.offsetDelta != i {
			return invalid("batch of %d records: record %d has offset delta %d", n, i, f.offsetDelta)
		}
		if keys && f.key == nil {
			return invalid("record %d has no key, but the topic is compacted (cleanup.policy=compact): every record needs one", i)
		}
	}
	if r.rest() != 0 {
		return invalid("%d bytes after the last of %d records", r.rest(), n)
	}
	return nil
}
