package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// printVersion prints version, commit and Go version.
func printVersion(_ context.Context, c *invocation) error {
	v := struct {
		Version string `json:"version"`
		Commit  string `json:"commit"`
		Go      string `json:"go"`
	}{version, "unknown", runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	// A build outside a repository, as in the container image, knows no revision but this one.
	if commit != "" {
		v.Commit = commit
	}
	if c.json {
		return json.NewEncoder(c.Out).Encode(v)
	}
	_, err := fmt.Fprintf(c.Out, "ravenbot %s, commit %s, %s\n", v.Version, v.Commit, v.Go)
	return err
}

// commit is set by the linker where the build knows it.
var commit = ""
