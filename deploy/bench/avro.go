package main

import (
	"context"
	"slices"
)

// avro puts the Avro encoding of the change event of 8 columns beside the reflecting encoder of hamba/avro, in the two forms it can be
// given: Go structs that were written for this table, and maps, which is what is left when tables are not known beforehand. Times are CPU
// times of one event.
func (b *bench) avro(ctx context.Context) error {
	const pkg = "./schema/avro/avrodata"
	took := map[string][]float64{}
	var allocs, theirAllocs float64
	for i := range b.pairs {
		of := func(name string) func() error {
			return func() error {
				fields, err := goBenchmark(ctx, pkg, "^Benchmark"+name+"$")
				if err != nil {
					return err
				}
				took[name] = append(took[name], fields["cpu-ns/op"])
				switch name {
				case "AvroEncodeEvent":
					allocs = max(allocs, fields["allocs/op"])
				case "HambaStructEvent":
					theirAllocs = max(theirAllocs, fields["allocs/op"])
				}
				return nil
			}
		}
		parts := []func() error{of("AvroEncodeEvent"), of("HambaStructEvent"), of("HambaMapEvent"), of("AvroDecodeEvent")}
		if i%2 == 1 {
			slices.Reverse(parts)
		}
		for _, f := range parts {
			if err := f(); err != nil {
				return err
			}
		}
		b.print("pair %d: an event as Avro: ours %.0f ns, hamba's structs %.0f ns, hamba's maps %.0f ns", i+1, took["AvroEncodeEvent"][i], took["HambaStructEvent"][i], took["HambaMapEvent"][i])
	}
	ours, structs, maps := median(took["AvroEncodeEvent"]), median(took["HambaStructEvent"]), median(took["HambaMapEvent"])
	b.print("encoding a change event of 8 columns as Avro: %.0f ns, %.0f allocations; hamba's reflection %.0f ns from structs (%.1f times, %.0f allocations), %.0f ns from maps (%.1f times); reading it %.0f ns",
		ours, allocs, structs, structs/ours, theirAllocs, maps, maps/ours, median(took["AvroDecodeEvent"]))
	b.promise(ours < 700, "encoding as Avro takes %.0f ns, promised are under 700", ours)
	b.promise(allocs == 0, "encoding as Avro allocates %.0f times, promised is never", allocs)
	return nil
}
