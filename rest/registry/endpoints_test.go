package registry_test

import (
	"strings"
	"testing"

	"millrace/log/logtest"
)

// reference are the operations of the original, one line for each path: its methods and the path, with the query parameters that it knows.
const reference = `
GET,POST     /
GET          /subjects?subjectPrefix=:*:&deleted=true&deletedOnly=false&offset=0&limit=-1
POST,DELETE  /subjects/s?normalize=true&format=&deleted=true&permanent=false
GET          /subjects/s/metadata?key=k&value=v&format=&deleted=true
GET,POST     /subjects/s/versions?deleted=true&deletedOnly=false&deletedAsNegative=false&normalize=true&format=&force=false
GET,DELETE   /subjects/s/versions/1?format=&referenceFormat=&deleted=true&findTags=t&permanent=false
GET          /subjects/s/versions/1/schema?format=&deleted=true
GET          /subjects/s/versions/1/referencedby?deleted=true
POST         /subjects/s/versions/1/tags
GET          /schemas?subjectPrefix=s&aliases=true&deleted=true&latestOnly=true&ruleType=CEL
GET          /schemas/ids/1?subject=s&format=&referenceFormat=&findTags=t&fetchMaxId=true
GET          /schemas/ids/1/schema?subject=s&format=
GET          /schemas/ids/1/subjects?subject=s&deleted=true
GET          /schemas/ids/1/versions?subject=s&deleted=true
GET          /schemas/guids/00000000-0000-0000-0000-000000000000?format=
GET          /schemas/guids/00000000-0000-0000-0000-000000000000/ids
GET          /schemas/types
GET,PUT,DELETE /config?defaultToGlobal=true
GET,PUT,DELETE /config/s?defaultToGlobal=true
GET,PUT,DELETE /mode?force=true
GET,PUT,DELETE /mode/s?defaultToGlobal=true&force=true&recursive=true
POST         /compatibility/subjects/s/versions/1?normalize=true&verbose=true
POST         /compatibility/subjects/s/versions?normalize=true&verbose=true
GET          /contexts?contextPrefix=.&offset=0&limit=-1
DELETE       /contexts/.none
GET          /v1/metadata/id
GET          /v1/metadata/version
GET          /v1/metadata/deployment
`

// Whatever the original serves is served: no operation of it is unknown, neither alone nor in a context.
func TestNoOperationOfTheReferenceIsUnknown(t *testing.T) {
	asked := 0
	for _, within := range []string{"", "/contexts/.c"} {
		s := start(t, logtest.New(t))
		for _, line := range strings.Split(strings.TrimSpace(reference), "\n") {
			methods, path, _ := strings.Cut(line, " ")
			path = strings.TrimSpace(path)
			if within != "" && (path == "/" || strings.HasPrefix(path, "/contexts") || strings.HasPrefix(path, "/v1")) {
				continue // not of a context
			}
			for _, method := range strings.Split(methods, ",") {
				if a := s.send("POST", within+"/subjects/s/versions", schemaBody(ints)); a.status != 200 {
					t.Fatalf("a subject for the next question: %+v", a)
				}
				body := ""
				if method == "POST" || method == "PUT" {
					body = schemaBody(ints)
				}
				a := s.send(method, within+path, body)
				asked++
				if a.status == 405 || a.status >= 500 || strings.Contains(a.body, "HTTP 404 Not Found") {
					t.Errorf("%s %s: %+v", method, within+path, a)
				}
				for _, other := range []string{"PATCH", "TRACE"} {
					if a := s.send(other, within+path, ""); a.status != 405 || !strings.Contains(a.body, `"error_code":405`) {
						t.Errorf("%s %s: %+v", other, path, a)
					}
				}
			}
		}
	}
	if asked < 60 {
		t.Errorf("%d questions: the table has more", asked)
	}
}

// What the original serves with its commercial parts alone is answered as without them: not found, in words that clients know, whatever the
// method. Clients that ask for associations take that for a registry without them.
func TestPartsThatTheOriginalHasApartAreNotFound(t *testing.T) {
	s := start(t, logtest.New(t))
	for _, path := range []string{
		"/exporters", "/exporters/e", "/exporters/e/status", "/exporters/e/config", "/exporters/e/pause",
		"/dek-registry/v1/keks", "/dek-registry/v1/keks/k", "/dek-registry/v1/keks/k/deks/s", "/dek-registry/v1/policy",
		"/catalog/v1/entity/tags", "/catalog/v1/types/tagdefs",
		"/associations", "/associations/subjects/s", "/associations/resources/id", "/associations/resources/ns/name", "/associations:batch",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			body := ""
			if method != "GET" {
				body = `{}`
			}
			a := s.send(method, path, body)
			if a.status != 404 || a.body != `{"error_code":404,"message":"HTTP 404 Not Found"}` || a.media != "application/vnd.schemaregistry.v1+json" {
				t.Errorf("%s %s: %+v", method, path, a)
			}
		}
	}
}
