package cmd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSchemasOnTheCommandLine(t *testing.T) {
	r := newRuns(t)
	p := r.start(t)
	s := &shell{t: t, dir: r.dir, env: []string{"MILLRACE_URL=" + p.api, "MILLRACE_REGISTRY="}}
	s.write("one.avsc", `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}`)
	s.write("two.avsc", `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"long"},{"name":"b","type":"string","default":""}]}`)
	s.write("bad.avsc", `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}`)
	s.write("none.avsc", `{"type":"rec"}`)
	s.write("user.avsc", `{"type":"record","name":"U","namespace":"n","fields":[{"name":"r","type":"n.R"}]}`)
	s.steps([]step{
		{args: "schemas list", out: "No subjects.\n"},
		{args: "schemas register shop -f one.avsc", out: "shop version 1, id 1\n"},
		{args: "schemas register shop -f one.avsc", out: "shop version 1, id 1\n"},
		{args: "schemas check shop -f two.avsc", out: "shop: the schema fits\n"},
		{args: "schemas check shop -f bad.avsc", status: 1, err: "error: shop: the schema does not fit to version 1 (BACKWARD)\n  /fields/1  READER_FIELD_MISSING_DEFAULT_VALUE: "},
		{args: "schemas check shop -f bad.avsc -o json", status: 1, has: `"is_compatible": false`},
		{args: "schemas register shop -f bad.avsc", status: 1, err: "nothing was registered\n  /fields/1  READER_FIELD_MISSING_DEFAULT_VALUE"},
		{args: "schemas register shop -f none.avsc", status: 1, err: "Invalid schema of type AVRO, details: "},
		{args: "schemas register shop -f nofile.avsc", status: 2, err: "nofile.avsc"},
		{args: "schemas register shop -f -", stdin: " ", status: 2, err: "is empty"},
		{args: "schemas register shop", status: 2, err: "-f"},
		{args: "schemas register shop -f two.avsc -o json", has: `"version": 2`},
		{args: "schemas diff shop", status: 1, out: "shop  1 → 2\n  ~ /fields/a/type  \"int\" → \"long\"\n  + /fields/b  {\"default\":\"\",\"name\":\"b\",\"type\":\"string\"}\n", err: "2 places differ"},
		{args: "schemas diff shop 1 -o json", status: 1, has: `"path": "/fields/a/type"`},
		{args: "schemas diff shop 2 2", out: "shop  2 → 2: nothing differs\n"},
		{args: "schemas diff shop -f two.avsc", out: "shop  2 → file: nothing differs\n"},
		{args: "schemas list", out: "SUBJECT  VERSIONS  LATEST  ID  TYPE\nshop     2         2       2   AVRO\n"},
		{args: "schema ls sh -o name", out: "shop\n"},
		{args: "schemas list -o json", has: `"subject": "shop"`},
		{args: "schemas get shop 1", has: `"name": "a"`},
		{args: "schemas get shop 1 -o json", has: `"id": 1`},
		{args: "schemas get id:2", has: `"name": "b"`},
		{args: "schemas get shop 9", status: 3, err: "Version 9 not found."},
		{args: "schemas get nope", status: 3, err: "Subject 'nope' not found."},
		{args: "schemas get shop first", status: 1, err: "not a valid version"},
		{args: "schemas register user -f user.avsc", status: 1, err: "n.R"},
		{args: "schemas register user -f user.avsc --reference n.R=shop@latest", out: "user version 1, id 3\n"},
		{args: "schemas register user -f user.avsc --reference n.R", status: 2, err: "NAME=SUBJECT@VERSION"},
		{args: "schemas compat get", out: "COMPAT\nBACKWARD\n"},
		{args: "schemas compat set shop none", out: "compat of shop is NONE\n"},
		{args: "schemas compat get shop -o json", has: `"compat": "NONE"`},
		{args: "schemas compat set shop sometimes", status: 1, err: "Invalid compatibility level"},
		{args: "schemas mode set shop readonly", out: "mode of shop is READONLY\n"},
		{args: "schemas delete shop --version 1 --yes", status: 1, err: "read-only"},
		{args: "schemas mode set shop READWRITE", out: "mode of shop is READWRITE\n"},
		{args: "schemas delete shop", status: 2, err: "add --yes"},
		{args: "schemas delete shop --yes", status: 1, err: "One or more references exist"},
		{args: "schemas delete shop --version 1 --yes", out: "deleted shop: versions 1\n"},
		{args: "schemas restore shop 1", out: "shop version 1 is back as version 3, id 1\n"},
		{args: "schemas restore shop 2", status: 1, err: "not deleted"},
		{args: "schemas delete user --permanent --yes", status: 3, err: "was not deleted first"},
		{args: "schemas delete user --yes -o json", has: `"subject": "user"`},
		{args: "schemas list --deleted", has: "user     1         deleted  -   AVRO"},
		{args: "schemas frobnicate", status: 2, err: "there is no millrace schemas frobnicate"},
		{args: "schemas lst", status: 2, err: "did you mean"},
		{args: "schemas list --registry http://127.0.0.1:1", status: 5, err: "or name another with --registry"},
		{args: "schemas list --registry nonsense", status: 2, err: `address "nonsense" of the schema registry`},
		{args: "schemas register shop -f one.avsc --curl --registry http://r:1", has: "curl -sS -X POST -H 'Content-Type: application/json' --data-binary"},
	})
}

// A registry of the JVM answers with what its version has, and the same commands serve against it.
func TestSchemasServeAgainstAnOlderRegistry(t *testing.T) {
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
		answer := func(status int, v any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
		switch r.Method + " " + r.URL.Path {
		case "POST /subjects/s/versions":
			answer(200, map[string]int{"id": 7})
		case "POST /subjects/s":
			answer(200, map[string]any{"subject": "s", "version": 4, "id": 7, "schema": `"int"`})
		case "POST /compatibility/subjects/s/versions":
			answer(200, map[string]bool{"is_compatible": false})
		default:
			answer(404, map[string]any{"error_code": 40401, "message": "Subject not found."})
		}
	}))
	defer old.Close()
	s := &shell{t: t, dir: t.TempDir(), env: []string{"MILLRACE_REGISTRY=" + old.URL}}
	s.write("int.avsc", `"int"`)
	s.steps([]step{
		{args: "schemas register s -f int.avsc", out: "s version 4, id 7\n"},
		{args: "schemas check s -f int.avsc", status: 1, err: "s: the schema does not fit to the versions that there are"},
		{args: "schemas get s", status: 3, err: "Subject not found."},
	})
	out, _, _ := s.run("", "schemas", "get", "s", "--curl")
	if want := old.URL + "/subjects/s/versions/latest"; !strings.Contains(out, want) {
		t.Errorf("--curl prints %q, want %s in it", out, want)
	}
}
