package plugin

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema/config"
)

// Info is what every component says of itself.
type Info struct {
	Name    string   // short alias: "postgres"
	Class   string   // Java class name that existing configurations use; "" where there is none
	Aliases []string // further names
	Version string   // as plugin lists show it
	Doc     string   // one sentence, then more
	Config  config.Def
}

// Describe is Info itself; with it a plugin value that embeds Info is a Plugin.
func (i Info) Describe() Info { return i }

// A Plugin is any component's value.
type Plugin interface{ Describe() Info }

// A Table finds plugins of one kind by name. It is immutable.
type Table[P Plugin] struct {
	list   []P
	byName map[string]int
}

// NewTable makes a table. Two plugins of one alias or class are a mistake of whoever put
// the list together, and reported. A simple class name that two share is, as in Connect,
// the name of neither.
func NewTable[P Plugin](list ...P) (Table[P], error) {
	t := Table[P]{list: slices.Clone(list), byName: map[string]int{}}
	for n, p := range list {
		i := p.Describe()
		for _, name := range i.own() {
			if at, taken := t.byName[name]; taken && at != n {
				return t, fmt.Errorf("plugins %s and %s: both are called %q", list[at].Describe().Name, i.Name, name)
			}
			t.byName[name] = n
		}
	}
	simple := map[string][]int{}
	for n, p := range list {
		for _, name := range p.Describe().simple() {
			simple[name] = append(simple[name], n)
		}
	}
	for name, of := range simple {
		if _, taken := t.byName[name]; !taken && len(slices.Compact(of)) == 1 {
			t.byName[name] = of[0]
		}
	}
	return t, nil
}

// All are the plugins in their order. The slice must not be changed.
func (t Table[P]) All() []P { return t.list }

// Find is the plugin of that name: its class, its simple class name with or without
// the ending Connector, its alias. The second result says whether there is one.
func (t Table[P]) Find(name string) (P, bool) {
	n, ok := t.byName[name]
	if !ok {
		var none P
		return none, false
	}
	return t.list[n], true
}

// Names are all names by which users may call the plugin, where no other shares them.
func (i Info) Names() []string {
	names := append(i.own(), i.simple()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// own are the names that no other plugin may have.
func (i Info) own() []string {
	names := append([]string{i.Name, i.Class}, i.Aliases...)
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// simple are the names that come of the class.
func (i Info) simple() []string {
	if i.Class == "" {
		return nil
	}
	simple := i.Class[strings.LastIndexByte(i.Class, '.')+1:]
	if short, ok := strings.CutSuffix(simple, "Connector"); ok && short != "" {
		return []string{simple, short}
	}
	return []string{simple}
}
