package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
)

var update = flag.Bool("update", false, "rewrite files that tests compare with")

func TestSchemaFileIsInStep(t *testing.T) {
	path := filepath.Join("..", "..", "..", "deploy", "config.schema.json")
	if *update {
		if err := os.WriteFile(path, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	onDisk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(onDisk), string(Schema())); diff != "" {
		t.Errorf("%s is behind the structs; run go test ./internal/ops/config -update (-file +structs):\n%s", path, diff)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaJudgesAsLoadDoes(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "..", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text string
		valid      bool
	}{
		{"shipped", string(shipped), true},
		{"empty", `{}`, true},
		{"pasted", `{"mcpServers": {"a": {"type": "streamable-http", "httpUrl": "https://x/", "timeout": 60000, "gallery": true}}}`, true},
		{"links", `{"agents": {"default": {"mcpServers": ["a", {"name": "b", "enabled": false}]}}}`, true},
		{"roots", `{"tools": {"files": {"roots": ["a", {"path": "b", "write": true}]}}}`, true},
		{"root without a path", `{"tools": {"files": {"roots": [{"write": true}]}}}`, false},
		{"unknown key", `{"stor": "x"}`, false},
		{"wrong type", `{"tools": {"maxSteps": "ten"}}`, false},
		{"bad enum", `{"log": {"level": "loud"}}`, false},
		{"negative", `{"budget": {"userDailyUSD": -1}}`, false},
		{"digest without feeds", `{"digests": {"a": {"schedule": "0 8 * * *", "post": ["web:/a"]}}}`, false},
	}
	schema := compileSchema(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			standard, err := hujson.Standardize([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(standard))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); (err == nil) != tt.valid {
				t.Errorf("valid = %v, want %v: %v", err == nil, tt.valid, err)
			}
		})
	}
}

func TestSchemaDescribesEveryKey(t *testing.T) {
	for key, text := range parseDocs(source) {
		if text == "" && key != "Config.Dir" {
			t.Errorf("%s has no comment for the schema", key)
		}
	}
}
