package envelope

import "testing"

func TestAdjusters(t *testing.T) {
	for _, c := range []struct {
		a        Adjuster
		in, want string
	}{
		{AdjustNone, "a-b", "a-b"}, {AdjustAvro, "p-1.s.Odd name", "p_1.s.Odd_name"}, {AdjustAvro, "1a", "_a"},
		{AdjustAvroUnicode, "a-b", "a_u002db"}, {AdjustAvroUnicode, "a_b", "a_u005fb"}, {AdjustAvro, "é", "_"},
	} {
		if got := c.a.Name(c.in); got != c.want {
			t.Errorf("%d of %q is %q, want %q", c.a, c.in, got, c.want)
		}
	}
}
