package cmd

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The arrows between packages. An area may import itself and areas of a lower rank; of equal ones none knows the other.
var rank = map[string]int{"log": 1, "schema": 1, "transforms": 2, "connectors": 2, "runtime": 3, "rest": 4, "cmd": 5}

const module = "millrace"

// objection says what is wrong with a file at from (a slash path from the module's root) importing our package to (a path
// without the module's name), or nothing.
func objection(from, to string) string {
	area, _, _ := strings.Cut(from, "/")
	target, _, _ := strings.Cut(to, "/")
	test := strings.HasSuffix(from, "_test.go")
	suite := strings.HasSuffix(path.Dir(from), "test") // schematest and its like
	switch {
	case strings.HasPrefix(to, "log/internal") && area != "log":
		return "only log knows what is under log/internal"
	case area == "deploy" && target != "deploy":
		return "deploy imports none of ours"
	case target == "deploy" && area != "deploy" && !test && !suite:
		return "only tests and their suites import deploy"
	case area == "deploy", target == "deploy":
		return ""
	case strings.HasSuffix(to, "test") && !test && !suite:
		return "suites are for tests"
	case target == area:
		return insideConnectors(from, to)
	case rank[area] == 0 || rank[target] == 0:
		return "one of them has no rank in this test"
	case rank[target] > rank[area]:
		return "the arrow points up"
	case test:
		return "" // a test may look at what lies below and beside, to put a record through more than one part
	case rank[target] == rank[area]:
		return "neither of them knows the other"
	case target == "log" && (area == "connectors" || area == "transforms"):
		return "connectors and transforms ask their context for what they need of the log"
	case target == "connectors" && to != "connectors" && area != "cmd":
		return "only cmd knows which connectors there are; the others know the contract"
	}
	return ""
}

// insideConnectors keeps one connector from knowing another. What they share has a folder of its own.
func insideConnectors(from, to string) string {
	const shared = "connectors connectors/cdc connectors/warehouse connectors/connectortest"
	own := path.Dir(from)
	if !strings.HasPrefix(to, "connectors/") || to == own || strings.HasPrefix(to, own+"/") || slices.Contains(strings.Fields(shared), to) {
		return ""
	}
	if parts := strings.Split(to, "/"); len(parts) > 2 && strings.HasPrefix(own+"/", path.Join(parts[0], parts[1])+"/") {
		return ""
	}
	return "a connector knows no other connector"
}

func TestImportsRulesObject(t *testing.T) {
	for _, row := range []struct {
		name, from, to string
		allowed        bool
	}{
		{"runtime knows the log", "runtime/worker/source.go", "log", true},
		{"the log knows nobody", "log/log.go", "schema", false},
		{"the schema knows nobody, in tests neither", "schema/value_test.go", "runtime", false},
		{"a connector does not know the log", "connectors/postgres/source.go", "log", false},
		{"its test may use one", "connectors/postgres/source_test.go", "log", true},
		{"a connector does not know the runtime, in tests neither", "connectors/file/sink_test.go", "runtime/worker", false},
		{"a connector knows no other", "connectors/mysql/source.go", "connectors/postgres", false},
		{"a connector knows what database sources share", "connectors/mysql/source.go", "connectors/cdc", true},
		{"a connector knows its own folders", "connectors/mysql/source.go", "connectors/mysql/binlog", true},
		{"folders of one connector know each other", "connectors/mysql/binlog/read.go", "connectors/mysql/wire", true},
		{"suites are for tests", "connectors/file/source.go", "connectors/connectortest", false},
		{"suites of others, too", "runtime/worker/source.go", "log/logtest", false},
		{"tests use the suites", "connectors/file/source_test.go", "connectors/connectortest", true},
		{"transforms and connectors do not know each other", "transforms/cast.go", "connectors", false},
		{"the runtime knows the contract", "runtime/worker/sink.go", "connectors", true},
		{"the runtime knows no connector", "runtime/worker/sink.go", "connectors/file", false},
		{"cmd knows them all", "cmd/plugins.go", "connectors/file", true},
		{"nobody outside the log sees a segment", "runtime/store/config.go", "log/internal/store", false},
		{"the log's parts do", "log/broker/produce.go", "log/internal/store", true},
		{"rest is above the runtime", "runtime/herder/herder.go", "rest", false},
		{"tests import deploy", "rest/server_test.go", "deploy/peers", true},
		{"so do suites", "schema/schematest/rounds.go", "deploy/trial", true},
		{"code does not", "rest/server.go", "deploy/peers", false},
		{"deploy imports none of ours", "deploy/bench/main.go", "schema", false},
		{"deploy's parts know each other", "deploy/demo/main.go", "deploy/peers/run", true},
		{"an area without a rank is found", "tools/x.go", "schema", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := objection(row.from, row.to); (got == "") != row.allowed {
				t.Errorf("%s imports %s: got %q", row.from, row.to, got)
			}
		})
	}
}

func TestImportsPointOneWay(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != ".." && (base == "testdata" || base == "build" || base == "bin" || base == "millrace-data" || base[0] == '.' || base[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		files++
		from, err := filepath.Rel("..", name)
		if err != nil {
			return err
		}
		for _, complaint := range complaints(t, name, filepath.ToSlash(from)) {
			t.Error(complaint)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 30 {
		t.Errorf("looked at %d files only", files)
	}
}

// complaints reads one file, whatever its build tags.
func complaints(t *testing.T, name, from string) (all []string) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	complain := func(n ast.Node, what string) {
		all = append(all, fmt.Sprintf("%s:%d: %s", from, set.Position(n.Pos()).Line, what))
	}
	for _, spec := range f.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch own, ours := strings.CutPrefix(to, module+"/"); {
		case ours && spec.Name != nil && spec.Name.Name == "_":
			complain(spec, "blank import of "+to+": a plugin is a plain value in a list")
		case ours:
			if what := objection(from, own); what != "" {
				complain(spec, "imports "+to+": "+what)
			}
		case to == "log":
			complain(spec, "imports Go's log: we log with log/slog, and log is ours")
		case to == "runtime" && (spec.Name == nil || spec.Name.Name != "goruntime"):
			complain(spec, "imports Go's runtime under a name other than goruntime: runtime is ours")
		}
	}
	if from != "log/transactions.go" {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is && sel.Sel.Name == "EndTransaction" && fmt.Sprint(sel.X) != "log" {
				complain(n, "ends a transaction by the client itself, which may lose it: log.EndTransaction does not")
			}
			return true
		})
	}
	simulation := false
	for _, group := range f.Comments {
		for _, line := range group.List {
			if constraint.IsGoBuild(line.Text) && line.Pos() < f.Package && strings.Contains(line.Text, "synctests") {
				simulation = true
			}
		}
	}
	for _, decl := range f.Decls {
		fn, is := decl.(*ast.FuncDecl)
		switch test := strings.HasSuffix(from, "_test.go"); {
		case !is || fn.Recv != nil:
		case !test && fn.Name.Name == "init":
			complain(fn, "func init: nothing registers itself")
		case test && simulation && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" && !strings.HasPrefix(fn.Name.Name, "TestSim"):
			complain(fn, fn.Name.Name+": tests in files with the tag synctests are called TestSim…, or make test would not run them")
		}
	}
	return all
}

// The top level says what the product is. A new folder there is a decision, not an accident.
func TestImportsTopLevelIsFixed(t *testing.T) {
	fixed := strings.Fields(".ci .gitattributes .gitignore LICENSE Makefile README.md cmd connectors deploy go.mod go.sum log rest runtime schema transforms")
	git := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	git.Dir = ".."
	out, err := git.Output()
	if err != nil {
		t.Skipf("what is tracked is not known here: git ls-files: %v", err)
	}
	seen := map[string]bool{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		top, _, _ := strings.Cut(name, "/")
		if !seen[top] && !slices.Contains(fixed, top) {
			t.Errorf("%s is not among the top level's entries: %s", top, strings.Join(fixed, " "))
		}
		seen[top] = true
	}
	if !seen["go.mod"] {
		t.Error("git ls-files did not name go.mod")
	}
}
