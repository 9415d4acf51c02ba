package main

import (
	"strings"
	"testing"
)

func TestDecimalPrintsWhatTheTableSays(t *testing.T) {
	for _, row := range []struct {
		name     string
		unscaled []byte
		want     string
	}{
		{"one byte", []byte{0x05}, "0.05"},
		{"more digits than decimals", []byte{0x01, 0x86, 0xa0}, "1000.00"},
		{"a leading zero byte keeps it positive", []byte{0x00, 0xff}, "2.55"},
		{"minus one hundredth", []byte{0xff}, "-0.01"},
		{"negative with digits before the point", []byte{0xfe, 0x0c}, "-5.00"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := decimal(row.unscaled, 2); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// The same row out of COPY and out of an event has one checksum, and any column that differs gives another.
func TestARowOfTheTableAndOfTheTopicHaveOneChecksum(t *testing.T) {
	const line = "7\t3\t12.34\tcustomer x\t2024-01-01 00:00:07.25+00\tt\t2.3333333333333335\tnote"
	const event = `{"before":null,"after":{"id":7,"k":3,"amount":"BNI=","name":"customer x","created":"2024-01-01T00:00:07.250000Z","active":true,"score":2.3333333333333335,"note":"note"},"op":"u"}`
	table, err := tableRow(line)
	if err != nil {
		t.Fatal(err)
	}
	topic, op, err := topicRow([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	if op != "u" || table.sum() != topic.sum() {
		t.Fatalf("table %+v, topic %+v with op %s", table, topic, op)
	}
	for _, change := range [][2]string{
		{`"id":7`, `"id":8`}, {`"k":3`, `"k":4`}, {"BNI=", "BNM="}, {"customer x", "customer y"}, {"07.25", "07.26"}, {"true", "false"}, {"333333335,", "333333345,"}, {`"note"}`, `"not"}`},
	} {
		other, _, err := topicRow([]byte(strings.Replace(event, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if other.sum() == table.sum() {
			t.Errorf("%s for %s does not change the checksum", change[1], change[0])
		}
	}
}
