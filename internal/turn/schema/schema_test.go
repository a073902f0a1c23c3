package schema_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/turn/schema"
)

const booking = `{
  "type": "object",
  "properties": {
    "city":   {"type": "string"},
    "nights": {"type": "integer", "minimum": 1},
    "price":  {"type": "number"},
    "late":   {"type": "boolean"},
    "tags":   {"type": "array", "items": {"type": "string"}},
    "rooms":  {"type": "array", "items": {"type": "object", "properties": {"beds": {"type": "integer"}}, "required": ["beds"]}},
    "guest":  {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    "class":  {"enum": ["first", "second"]},
    "id":     {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}
  },
  "required": ["city"],
  "additionalProperties": false
}`

// shot is a schema as Zod 4 writes it: what has a default is required.
const shot = `{
  "type": "object",
  "properties": {
    "scale": {"type": "string", "enum": ["css", "device"], "default": "css"},
    "areas": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"},
      "y": {"type": "integer", "default": 0}}, "required": ["x", "y"]}},
    "page":   {"type": "object", "properties": {"view": {"type": "object", "default": {},
      "properties": {"wide": {"type": "boolean", "default": false}}, "required": ["wide"]}}, "required": ["view"]},
    "maybe":  {"anyOf": [{"type": "object", "properties": {"y": {"default": 0}}, "required": ["y"]}, {"type": "null"}]},
    "named":  {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"]},
    "either": {"anyOf": [{"properties": {"a": {"default": 1}}, "required": ["a"]},
      {"properties": {"b": {"default": 2}}, "required": ["b"]}]},
    "bad":    {"type": "object", "properties": {"n": {"type": "integer", "default": "many"}}, "required": ["n"]}
  },
  "required": ["scale"],
  "additionalProperties": false,
  "$defs": {"x": {"type": "integer", "default": 7}}
}`

func TestCheck(t *testing.T) {
	tests := []struct {
		name, schema, args string
		want, wrong        string // exactly one of them
	}{
		{name: "fits", schema: booking, args: `{"city":"Oslo","nights":2}`, want: `{"city":"Oslo","nights":2}`},
		{name: "is sent as written", schema: booking, args: ` {"city":"a<b", "price":1e2, "nights":12345678901234567890} `, want: `{"city":"a<b", "price":1e2, "nights":12345678901234567890}`},
		{name: "missing", schema: `{"type":"object"}`, args: ``, want: `{}`},
		{name: "null", schema: `{"type":"object"}`, args: `null`, want: `{}`},
		{name: "no schema", args: `{"a":1}`, want: `{"a":1}`},
		{name: "whole object as text", schema: booking, args: `"{\"city\":\"Oslo\"}"`, want: `{"city":"Oslo"}`},

		{name: "integer as text", schema: booking, args: `{"city":"O","nights":"5"}`, want: `{"city":"O","nights":5}`},
		{name: "number as text", schema: booking, args: `{"city":"O","price":" 5.25 "}`, want: `{"city":"O","price":5.25}`},
		{name: "boolean as text", schema: booking, args: `{"city":"O","late":"True"}`, want: `{"city":"O","late":true}`},
		{name: "one value for a list", schema: booking, args: `{"city":"O","tags":"x"}`, want: `{"city":"O","tags":["x"]}`},
		{name: "one object for a list", schema: booking, args: `{"city":"O","rooms":{"beds":"2"}}`, want: `{"city":"O","rooms":[{"beds":2}]}`},
		{name: "list as text", schema: booking, args: `{"city":"O","tags":"[\"x\",\"y\"]"}`, want: `{"city":"O","tags":["x","y"]}`},
		{name: "object as text", schema: booking, args: `{"city":"O","guest":"{\"name\":\"Ann\",\"age\":\"7\"}"}`, want: `{"city":"O","guest":{"age":7,"name":"Ann"}}`},
		{name: "null for optional", schema: booking, args: `{"city":"O","nights":null,"class":null}`, want: `{"city":"O"}`},
		{name: "one reading of several types", schema: booking, args: `{"city":"O","id":"7"}`, want: `{"city":"O","id":7}`},
		{name: "text is kept where text is asked for", schema: booking, args: `{"city":"5"}`, want: `{"city":"5"}`},
		{name: "html is not escaped when mended", schema: booking, args: `{"city":"a<b","nights":"1"}`, want: `{"city":"a<b","nights":1}`},

		{name: "null for required", schema: booking, args: `{"city":null}`, wrong: `city: must be string, not null`},
		{name: "required", schema: booking, args: `{}`, wrong: `arguments: missing "city"`},
		{name: "unknown", schema: booking, args: `{"city":"O","nihgts":1}`, wrong: `arguments: unknown "nihgts", did you mean "nights"?`},
		{name: "unknown in another style", schema: booking, args: `{"city":"O","Late_":true}`, wrong: `arguments: unknown "Late_", did you mean "late"?`},
		{name: "unknown and part of a name", schema: booking, args: `{"city":"O","room_class":1}`, wrong: `arguments: unknown "room_class", did you mean "class"?`},
		{name: "stranger", schema: booking, args: `{"city":"O","explanation":"because","nights":"2"}`, want: `{"city":"O","nights":2}`},
		{name: "stranger that is allowed", schema: `{"properties":{"a":{"type":"integer"}}}`, args: `{"a":"1","explanation":"because"}`, want: `{"a":1,"explanation":"because"}`},
		{name: "stranger of one alternative", schema: `{"anyOf":[{"properties":{"a":{}},"additionalProperties":false,` +
			`"required":["a"]},{"properties":{"bird":{"type":"integer"}},"additionalProperties":false,"required":["bird"]}]}`,
			args:  `{"bird":"x"}`,
			wrong: `arguments: missing "a"; arguments: unknown "bird"; bird: must be integer, not string`},
		{name: "number for text", schema: booking, args: `{"city":5.10,"tags":[1]}`, want: `{"city":"5.10","tags":["1"]}`},
		{name: "number for a choice", schema: `{"properties":{"a":{"type":"string","enum":["1","2"]}}}`, args: `{"a":2}`, want: `{"a":"2"}`},
		{name: "no number", schema: booking, args: `{"city":"O","nights":"many"}`, wrong: `nights: must be integer, not string`},
		{name: "fraction for integer", schema: booking, args: `{"city":"O","nights":"1.5"}`, wrong: `nights: must be integer, not string`},
		{name: "out of range though mended", schema: booking, args: `{"city":"O","nights":"0"}`, wrong: `nights: must be integer, not string`},
		{name: "enum", schema: booking, args: `{"city":"O","class":"third"}`, wrong: `class: must be one of first, second`},
		{name: "nested", schema: booking, args: `{"city":"O","rooms":[{"beds":1},{"beds":"x"}]}`, wrong: `rooms[1].beds: must be integer, not string`},
		{name: "boolean for text", schema: booking, args: `{"city":true}`, wrong: `city: must be string, not boolean`},
		{name: "two readings", schema: `{"properties":{"a":{"anyOf":[{"type":"array"},{"type":"integer"}]}}}`, args: `{"a":"5"}`, wrong: `a: must be array, not string; a: must be integer, not string`},
		{name: "list", schema: booking, args: `[1]`, wrong: `the arguments must be a JSON object, not a list`},
		{name: "text", args: `"x"`, wrong: `the arguments must be a JSON object, not text`},
		{name: "key twice", schema: booking, args: `{"city":"O","city":"P"}`, wrong: `the key "city" is given twice`},
		{name: "key twice, nested, without schema", args: `{"a":[{"b":1,"b":2}]}`, wrong: `the key "b" is given twice`},
		{name: "cut off", schema: booking, args: `{"city":`, wrong: `not valid JSON: unexpected EOF`},
		{name: "two values", schema: booking, args: `{} {}`, wrong: `not valid JSON: there is text after the value`},
		{name: "huge number", schema: booking, args: `{"city":"O","nights":1e999999999}`, wrong: `the number 1e999999999 is too large or too exact`},
		{name: "huge number as text", schema: booking, args: `{"city":"O","nights":"1e999999999"}`, wrong: `nights: must be integer, not string`},

		{name: "required with a default", schema: shot, args: `{}`, want: `{"scale":"css"}`},
		{name: "default that is not needed", schema: shot, args: `{"scale":"device"}`, want: `{"scale":"device"}`},
		{name: "null for a default", schema: shot, args: `{"scale":null}`, want: `{"scale":"css"}`},
		{name: "defaults of nested objects", schema: shot, args: `{"areas":[{"x":1},{"x":2,"y":5}]}`, want: `{"areas":[{"x":1,"y":0},{"x":2,"y":5}],"scale":"css"}`},
		{name: "default of an object and below it", schema: shot, args: `{"scale":"css","page":{}}`, want: `{"page":{"view":{"wide":false}},"scale":"css"}`},
		{name: "default of one type", schema: shot, args: `{"scale":"css","maybe":{}}`, want: `{"maybe":{"y":0},"scale":"css"}`},
		{name: "default by a reference", schema: shot, args: `{"scale":"css","named":{}}`, want: `{"named":{"x":7},"scale":"css"}`},
		{name: "default and another mistake", schema: shot, args: `{"areas":{"x":"1"}}`, want: `{"areas":[{"x":1,"y":0}],"scale":"css"}`},
		{name: "default of one alternative", schema: shot, args: `{"scale":"css","either":{}}`, wrong: `either: missing "a"; either: missing "b"`},
		{name: "default that does not fit", schema: shot, args: `{"scale":"css","bad":{}}`, wrong: `bad: missing "n"`},
		{name: "one default and one without", schema: shot, args: `{"areas":[{}]}`, wrong: `arguments: missing "scale"; areas[0]: missing "x", "y"`},
		{name: "default in a circle", schema: `{"properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"$ref":"#/$defs/b"}}}`, args: `{}`, wrong: `arguments: missing "a"`},

		{name: "allOf", schema: `{"allOf":[{"required":["a"]}]}`, args: `{}`, wrong: `arguments: missing "a"`},
		{name: "if then", schema: `{"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"required":["b"]}}`, args: `{"a":1}`, wrong: `arguments: missing "b"`},
		{name: "2020-12 by default", schema: `{"properties":{"a":{"prefixItems":[{"type":"integer"}]}}}`, args: `{"a":["x"]}`, wrong: `a[0]: must be integer, not string`},
		{name: "older draft honoured", schema: `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"integer"}]}}}`, args: `{"a":["x"]}`, wrong: `a[0]: must be integer, not string`},
		{name: "recursive", schema: `{"properties":{"n":{"$ref":"#"},"v":{"type":"integer"}}}`, args: `{"n":{"n":{"v":"x"}}}`, wrong: `n.n.v: must be integer, not string`},
		{name: "expression of ECMAScript costs only itself", schema: `{"properties":{"a":{"pattern":"^(?!x)"},"b":{"type":"integer"}}}`, args: `{"a":"x","b":[]}`, wrong: `b: must be integer, not array`},

		{name: "broken schema", schema: `{"type":"objekt"}`, args: `{"a":1}`, want: `{"a":1}`},
		{name: "schema that is no schema", schema: `[1,2`, args: `{"a":1}`, want: `{"a":1}`},
		{name: "schema that refers to nothing", schema: `{"$ref":"#/$defs/none"}`, args: `{"a":1}`, want: `{"a":1}`},
		{name: "schema in a circle", schema: `{"$ref":"#"}`, args: `{"a":1}`, want: `{"a":1}`},
		{name: "broken schema, still an object", schema: `{"type":"objekt"}`, args: `5`, wrong: `the arguments must be a JSON object, not a number`},
	}
	c := schema.New()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := c.Check(json.RawMessage(tt.schema), json.RawMessage(tt.args))
			wrong := ""
			if err != nil {
				wrong = err.Error()
			}
			if string(got) != tt.want || wrong != tt.wrong {
				t.Errorf("Check = %s, error %q; want %s, error %q", got, wrong, tt.want, tt.wrong)
			}
		})
	}
}

// A schema may name any address: none is ever called, and what stands there is
// taken to fit anything.
func TestNothingIsLoaded(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"type":"integer"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"type":"integer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := schema.New()
	for _, ref := range []string{server.URL, server.URL + "/x#/$defs/y", "file://" + file, "other.json"} {
		s := fmt.Sprintf(`{"properties":{"a":{"$ref":%q}}}`, ref)
		if got, err := c.Check(json.RawMessage(s), json.RawMessage(`{"a":"x"}`)); err != nil || string(got) != `{"a":"x"}` {
			t.Errorf("with $ref %s: %s, %v", ref, got, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestErrorsStayShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := `{"properties":{"a":{"pattern":"^y$"},"b":{"const":1},"c":{"maxLength":3},"d":{"enum":["` + long[:1000] +
		`"]}},"additionalProperties":false,"required":["z"]}`
	args := `{"a":"` + long + `","b":"` + long + `","c":"` + long + `","d":"` + long + `","` + long + `":1}`
	_, err := schema.New().Check(json.RawMessage(s), json.RawMessage(args))
	if err == nil {
		t.Fatal("Check accepted everything")
	}
	if n := len(err.Error()); n > 1000 {
		t.Errorf("the error is %d bytes long", n)
	}
	if !strings.Contains(err.Error(), `missing "z"`) {
		t.Errorf("the error does not name the missing key: %v", err)
	}
}

func TestDeepAndLargeInput(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	c := schema.New()
	for name, args := range map[string]string{
		"lists":            `{"a":` + deep("[", "]", 100_000) + `}`,
		"objects":          deep(`{"a":`, "}", 100_000),
		"unclosed":         strings.Repeat("[", 1<<20),
		"object in text":   fmt.Sprintf(`{"a":%q}`, deep(`{"a":`, "}", 100_000)),
		"too large":        `{"a":"` + strings.Repeat("x", 9<<20) + `"}`,
		"very many digits": `{"a":` + strings.Repeat("9", 1<<20) + `}`,
	} {
		began := time.Now()
		_, err := c.Check(json.RawMessage(`{"properties":{"a":{"type":"object"}}}`), json.RawMessage(args))
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
	nested := `{"properties":{"a":` + deep(`{"not":`, "}", 100_000) + `}}`
	if _, err := c.Check(json.RawMessage(nested), json.RawMessage(`{"a":1}`)); err != nil {
		t.Errorf("with a schema nested too deeply to be used: %v", err)
	}
}

// Schemas that branch at each reference need twice the steps for each: such a one
// must not hold up the call.
func TestBranchingSchemaEnds(t *testing.T) {
	for _, draft := range []string{"https://json-schema.org/draft/2020-12/schema",
		"http://json-schema.org/draft-07/schema#"} {
		for _, branch := range []string{`"anyOf":[%[2]s,%[2]s]`, `"not":{"allOf":[{"not":%[2]s},{"not":%[2]s}]}`,
			`"allOf":[%[2]s,%[2]s]`} {
			defs := `"d40":{"required":["x"]}`
			for i := range 40 {
				ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
				defs += fmt.Sprintf(`,"d%d":{`+branch+`}`, i, ref)
			}
			s := fmt.Sprintf(`{"$schema":%q,"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s}}`, draft, defs)
			began := time.Now()
			_, err := schema.New().Check(json.RawMessage(s), json.RawMessage(`{"a":{}}`))
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s %s took %v (%v)", draft, branch, took, err)
			}
			if err != nil {
				t.Errorf("%s %s: a schema that cannot be checked refused the call: %v", draft, branch, err)
			}
		}
	}
}

func TestManySchemasAtOnce(t *testing.T) {
	c := schema.New()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 600 {
				s := fmt.Sprintf(`{"properties":{"a":{"maximum":%d}}}`, w*600+i)
				if _, err := c.Check(json.RawMessage(s), json.RawMessage(`{"a":5000}`)); err == nil {
					t.Errorf("schema %s accepted 5000", s)
				}
			}
		})
	}
	wg.Wait()
}

// The names in the suite say what a parser must do: y accept, n refuse, i either.
func TestJSONTestSuite(t *testing.T) {
	root := os.Getenv("RAVENBOT_CORPORA")
	if root == "" {
		t.Skip("RAVENBOT_CORPORA is not set: JSONTestSuite is not run")
	}
	f, err := os.Open(filepath.Join(root, "json", "JSONTestSuite", "test_parsing.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	c := schema.New()
	cases := 0
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(h.Name)
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(name) < 2 || name[1] != '_' {
			continue
		}
		cases++
		if _, err = c.Check(json.RawMessage(booking), data); name[0] == 'n' && err == nil {
			t.Errorf("%s was accepted as arguments", name)
		}
		_, err = c.Check(nil, fmt.Appendf(nil, `{"a":%s}`, data))
		duplicate := strings.Contains(name, "duplicated_key")
		if name[0] == 'y' && !duplicate && err != nil {
			t.Errorf("%s was refused: %v", name, err)
		}
		if (name[0] == 'n' && name != "n_single_space.json" || duplicate) && err == nil {
			t.Errorf("%s was accepted", name)
		}
		if _, err = c.Check(data, json.RawMessage(`{"a":1}`)); name[0] == 'n' && err != nil {
			t.Errorf("with %s as its schema, an object was refused: %v", name, err)
		}
	}
	if cases < 300 {
		t.Errorf("only %d cases were found", cases)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(booking), []byte(`{"city":"Oslo","nights":"5","tags":"x","guest":"{}","rooms":null}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"type":["null","array"]}]}}}`),
		[]byte(`{"a":[[[null]]]}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","properties":{"a":{"$ref":"y#z"}}}`),
		[]byte(`{"a":1e400}`))
	f.Add([]byte(`{"properties":{"a":{"multipleOf":1e-300,"pattern":"(?=x)"}}}`), []byte(`{"a":"9e300"}`))
	f.Fuzz(func(t *testing.T, s, args []byte) {
		args = bytes.TrimSpace(args)
		got, err := schema.New().Check(s, args)
		if err != nil || len(args) == 0 {
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if fits := schema.New().Fits(s, args); fits == nil && args[0] == '{' && string(got) != string(args) {
			t.Errorf("what fits was changed: %s into %s", args, got)
		}
		if fits := schema.New().Fits(s, got); fits != nil {
			t.Errorf("what Check gave does not fit: %v\n%s", fits, got)
		}
		var object map[string]json.RawMessage
		if e := json.Unmarshal(got, &object); e != nil {
			t.Fatalf("Check gave no object: %v\n%s", e, got)
		}
		if again, err := schema.New().Check(s, got); err != nil || string(again) != string(got) {
			t.Errorf("what Check gave does not pass again: %s, %v", again, err)
		}
	})
}
