package debezium

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

var (
	scriptLanguage = config.Key[string]{Name: "language", Default: "expr", Importance: config.High, Width: config.MediumW, Order: 1, Display: "Expression language", Check: checkLanguage,
		Doc: "Language of the expression: expr, that of https://expr-lang.org. Conditions such as value.op == 'u' && value.after.id == 2 are written as in Groovy; methods are operators here: topic startsWith 'shop.'."}
	scriptTopics = config.Key[string]{Name: "topic.regex", Importance: config.High, Width: config.Long, Order: 1, Display: "Topic regex", Check: optionalPattern,
		Doc: "Regular expression, as in Java, for the whole topic: records of other topics pass without being looked at."}
	scriptNulls = config.Key[string]{Name: "null.handling.mode", Default: "keep", Importance: config.Medium, Width: config.MediumW, Order: 1, Display: "Handle null records", Check: config.OneOf("keep", "drop", "evaluate"),
		Doc: "What becomes of records whose value is null: keep lets them pass, drop drops them, evaluate runs the expression."}
)

func optionalPattern(text string) error {
	if text == "" {
		return nil
	}
	return javatext.CheckPattern(text)
}

func checkLanguage(text string) error {
	switch {
	case strings.EqualFold(text, "expr"):
		return nil
	case strings.HasPrefix(text, "jsr223.") || strings.HasPrefix(text, "wasm."):
		return fmt.Errorf("%s needs a JVM and cannot run here: set language=expr and write the expression in it (https://expr-lang.org); most conditions are the same, "+
			"methods become operators: topic.startsWith('x') is topic startsWith 'x'", text)
	}
	return errors.New("the one language there is: expr")
}

// A script is an expression over records. It converts nothing of a record but the
// fields that the expression names.
type script struct {
	program *vm.Program
	paths   [][]string // of the fields
	whole   []string   // variables that are used as a whole
	env     map[string]any
	record  *schema.Record // being looked at
	topics  *javatext.Regexp
	nulls   string
	matched map[string]bool
}

// scriptVariables are what an expression sees.
var scriptVariables = []string{"key", "value", "keySchema", "valueSchema", "header"}

const scriptGet = "__get"

// newScript compiles the expression of a key; what is wrong with it is that key's error.
func newScript(v config.Values, k config.Key[string]) (*script, error) {
	s := &script{env: map[string]any{"topic": ""}, nulls: strings.ToLower(scriptNulls.Get(v)), matched: map[string]bool{}}
	if pattern := scriptTopics.Get(v); pattern != "" {
		var err error
		if s.topics, err = javatext.Compile(pattern); err != nil {
			return nil, scriptTopics.Errorf(v, "Invalid regex: %v", err)
		}
	}
	for _, name := range scriptVariables {
		s.env[name] = nil
	}
	text := k.Get(v)
	program, err := expr.Compile(text, expr.Env(map[string]any{"topic": ""}),
		expr.AllowUndefinedVariables(), expr.DisableBuiltin("now"), expr.Patch(s),
		expr.Function(scriptGet, func(p ...any) (any, error) { return s.get(s.paths[p[0].(int)]), nil }, new(func(int) any)))
	if err != nil {
		return nil, k.Errorf(v, "%v", err)
	}
	s.program = program
	node := program.Node()
	ast.Walk(&node, identifiers{func(name string) error {
		if contains(scriptVariables, name) {
			s.whole = append(s.whole, name)
			return nil
		}
		if name != "topic" && name != scriptGet && !strings.HasPrefix(name, "$") {
			err = k.Errorf(v, "there is no variable %s; there are topic, %s", name, strings.Join(scriptVariables, ", "))
		}
		return nil
	}})
	return s, err
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// identifiers visits the names that stand alone in an expression.
type identifiers struct{ found func(string) error }

func (i identifiers) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok {
		_ = i.found(id.Value)
	}
}

// Visit turns value.after.id into one look at the record. Nodes come from the inside
// out: the field's base is a variable, or a path that was found before.
func (s *script) Visit(n *ast.Node) {
	if c, ok := (*n).(*ast.ChainNode); ok {
		if _, ok := s.pathOf(c.Node); ok { // value?.after: a path is safe anyway
			ast.Patch(n, c.Node)
		}
		return
	}
	m, ok := (*n).(*ast.MemberNode)
	if !ok || m.Method {
		return
	}
	name, ok := m.Property.(*ast.StringNode)
	if !ok {
		return
	}
	base, ok := s.pathOf(m.Node)
	if !ok {
		return
	}
	s.paths = append(s.paths, append(append([]string(nil), base...), name.Value))
	ast.Patch(n, &ast.CallNode{Callee: &ast.IdentifierNode{Value: scriptGet}, Arguments: []ast.Node{&ast.IntegerNode{Value: len(s.paths) - 1}}})
}

// pathOf is the path that a node stands for.
func (s *script) pathOf(n ast.Node) ([]string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return []string{n.Value}, contains(scriptVariables, n.Value)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok && id.Value == scriptGet && len(n.Arguments) == 1 {
			if i, ok := n.Arguments[0].(*ast.IntegerNode); ok {
				return s.paths[i.Value], true
			}
		}
	}
	return nil, false
}

// run evaluates the expression on a record. look is false where the record passes or is
// dropped, as keep says, without being looked at.
func (s *script) run(r *schema.Record) (result any, look, keep bool, err error) {
	if s.topics != nil {
		ok, known := s.matched[r.Topic]
		if !known {
			if ok, err = s.topics.MatchWhole(r.Topic); err != nil {
				return nil, false, false, &schema.DataError{Reason: err.Error()}
			}
			if len(s.matched) >= 10_000 {
				clear(s.matched)
			}
			s.matched[r.Topic] = ok
		}
		if !ok {
			return nil, false, true, nil
		}
	}
	if r.Value.IsNull() && s.nulls != "evaluate" {
		return nil, false, s.nulls == "keep", nil
	}
	s.record = r
	s.env["topic"] = r.Topic
	for _, name := range s.whole {
		s.env[name] = s.get([]string{name})
	}
	result, err = expr.Run(s.program, s.env)
	s.record = nil
	if err != nil {
		return nil, false, false, &schema.DataError{Reason: fmt.Sprintf("the expression failed: %v", err)}
	}
	return result, true, true, nil
}

// get is what a path leads to; nil where it leads nowhere.
func (s *script) get(path []string) any {
	switch path[0] {
	case "key":
		return plainAt(s.record.Key, path[1:])
	case "value":
		return plainAt(s.record.Value, path[1:])
	case "keySchema":
		return schemaAt(s.record.KeySchema, path[1:])
	case "valueSchema":
		return schemaAt(s.record.ValueSchema, path[1:])
	}
	if len(path) == 1 {
		all := map[string]any{}
		for _, h := range s.record.Headers {
			all[h.Key] = map[string]any{"value": plainGo(h.Value), "schema": schemaAt(h.Schema, nil)}
		}
		return all
	}
	h, ok := s.record.Header(path[1])
	switch {
	case !ok:
		return nil
	case len(path) == 2:
		return map[string]any{"value": plainGo(h.Value), "schema": schemaAt(h.Schema, nil)}
	case path[2] == "value":
		return plainAt(h.Value, path[3:])
	case path[2] == "schema":
		return schemaAt(h.Schema, path[3:])
	}
	return nil
}

func plainAt(v schema.Value, path []string) any {
	for _, name := range path {
		switch v.Kind() {
		case schema.Struct:
			v = v.Get(name)
		case schema.Map:
			v, _ = v.Lookup(name)
		default:
			return nil
		}
	}
	return plainGo(v)
}

// schemaAt is what an expression sees of a schema.
func schemaAt(s *schema.Schema, path []string) any {
	if s == nil {
		return nil
	}
	version, _ := s.Version()
	if len(path) == 0 {
		return map[string]any{"name": s.Name(), "version": int(version), "doc": s.Doc(), "type": s.Kind().String(), "optional": s.Optional()}
	}
	if len(path) > 1 {
		return nil
	}
	switch path[0] {
	case "name":
		return s.Name()
	case "version":
		return int(version)
	case "doc":
		return s.Doc()
	case "type":
		return s.Kind().String()
	case "optional":
		return s.Optional()
	}
	return nil
}

// plainGo is a value as expressions know it: whole numbers, dates and times are int,
// decimals float64, structs and maps map[string]any.
func plainGo(v schema.Value) any {
	switch v.Kind() {
	case schema.Null:
		return nil
	case schema.Bool:
		return v.Bool()
	case schema.Float32, schema.Float64:
		return v.Float()
	case schema.String:
		return v.Str()
	case schema.Bytes:
		return v.Bytes()
	case schema.Decimal:
		f, _ := javatext.ParseFloat(string(v.AppendDecimal(nil)), 64)
		return f
	case schema.Array:
		out := make([]any, len(v.Elems()))
		for i, e := range v.Elems() {
			out[i] = plainGo(e)
		}
		return out
	case schema.Map:
		out := make(map[string]any, len(v.Entries()))
		for _, e := range v.Entries() {
			out[fmt.Sprint(plainGo(e.Key))] = plainGo(e.Value)
		}
		return out
	case schema.Struct:
		out := make(map[string]any, len(v.Fields()))
		for i, f := range v.Schema().Fields() {
			out[f.Name] = plainGo(v.At(i))
		}
		return out
	}
	return int(v.Int())
}
