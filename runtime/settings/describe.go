package settings

import (
	"cmp"
	"slices"

	"millrace/runtime"
	"millrace/schema/config"
)

// describe is a setting as Connect's clients see it. place is its position among
// the settings of its group.
func describe(i config.Info, place int) runtime.KeyInfo {
	k := runtime.KeyInfo{
		Name: i.Name, Type: string(i.Type), Required: i.Required, Importance: string(i.Importance), Documentation: i.Doc,
		OrderInGroup: -1, Width: string(i.Width), DisplayName: i.Display, Dependents: i.Dependents,
	}
	if text, ok := i.DefaultText(); ok {
		k.DefaultValue = &text
	}
	if i.Group != "" {
		k.Group, k.OrderInGroup = &i.Group, cmp.Or(i.Order, place)
	}
	if k.Dependents == nil {
		k.Dependents = []string{}
	}
	return k
}

// describeAll describes the settings of a Def in their order.
func describeAll(d config.Def) []runtime.KeyInfo {
	out := []runtime.KeyInfo{}
	places := map[string]int{}
	for _, i := range d.Infos() {
		out = append(out, describe(i, d.First()+places[i.Group]))
		if i.Order == 0 {
			places[i.Group]++
		}
	}
	return out
}

// groups are the groups of the keys, in the order of their first appearance.
func groups(keys []runtime.KeyInfo, before []string) []string {
	for _, k := range keys {
		if k.Group != nil && !slices.Contains(before, *k.Group) {
			before = append(before, *k.Group)
		}
	}
	return before
}

// inJavaOrder sorts keys as Java's HashMap iterates over their names, which is the
// order in which Connect lists a converter's settings.
func inJavaOrder(keys []runtime.KeyInfo) {
	size := 16
	for len(keys)*4 > size*3 { // a table grows at three quarters
		size *= 2
	}
	slices.SortStableFunc(keys, func(a, b runtime.KeyInfo) int { return cmp.Compare(bucket(a.Name, size), bucket(b.Name, size)) })
}

// bucket is where Java's HashMap of that size keeps the string.
func bucket(s string, size int) uint32 {
	var h uint32
	for _, c := range []byte(s) { // names of settings are ASCII
		h = 31*h + uint32(c)
	}
	return (h ^ h>>16) & uint32(size-1)
}
