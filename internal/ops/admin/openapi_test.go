package admin

import (
	"encoding/json"
	"strings"
	"testing"
)

type parameter struct{ Name, In string }

// count returns how many parameters are in a place.
func count(list []parameter, in string) (n int) {
	for _, p := range list {
		if p.In == in {
			n++
		}
	}
	return n
}

func TestTheAPIDescribesItself(t *testing.T) {
	_, _, server, client := start(t, nil)
	r := do(t, client, "GET", server.URL+"/api/v1/openapi.json", nil, "Authorization", bearerHeader)
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			OperationID string
			Parameters  []parameter
			RequestBody *struct {
				Content map[string]struct{ Schema json.RawMessage }
			}
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &spec); err != nil || r.status != 200 ||
		r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %v: %s", r.status, err, r.body)
	}
	if !strings.HasPrefix(spec.OpenAPI, "3.") {
		t.Errorf("version %q of OpenAPI", spec.OpenAPI)
	}
	ids := map[string]bool{}
	for path, methods := range spec.Paths {
		for method, o := range methods {
			if ids[o.OperationID] || len(o.Responses) != 2 || o.Responses["default"].Content["application/json"] == nil ||
				count(o.Parameters, "path") != strings.Count(path, "{") {
				t.Errorf("%s %s is described as %+v", method, path, o)
			}
			ids[o.OperationID] = true
		}
	}
	for route, o := range operations {
		method, path, _ := strings.Cut(route, " ")
		got, there := spec.Paths["/api/v1"+path][strings.ToLower(method)]
		if !there || got.Summary != o.summary || (got.RequestBody != nil) != (o.body != "") {
			t.Errorf("%s is described, and is there: %t, %+v", route, there, got)
		}
	}
	if list := spec.Paths["/api/v1/conversations"]["get"]; count(list.Parameters, "query") != 2 {
		t.Errorf("a list is described with the parameters %+v", list.Parameters)
	}
	if add := spec.Paths["/api/v1/mcp/servers"]["post"]; add.Responses["201"].Content == nil ||
		!strings.Contains(string(add.RequestBody.Content["application/json"].Schema), "command") {
		t.Errorf("adding a server is described as %+v", add)
	}
}
