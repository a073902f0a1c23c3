package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/news/digest"
)

// The kinds of cases.
const (
	kindAnswer     = "answer"
	kindKnowledge  = "knowledge"
	kindMemory     = "memory"
	kindHistory    = "history"
	kindTools      = "tools"
	kindPage       = "page"
	kindCompaction = "compaction"
	kindPrompt     = "prompt"
	kindDigest     = "digest"
)

// Case is something to be tried, and what should come of it.
type Case struct {
	Kind string `json:"kind"`
	Name string `json:"name"`

	// What the bot knows before it is asked.
	Place    string     `json:"place"`  // an address; empty: a web room
	Author   string     `json:"author"` // who asks
	System   string     `json:"system"` // instructions of the agent; empty: those of the configuration
	Turns    []Turn     `json:"turns"`
	Messages []Said     `json:"messages"`
	Notes    []string   `json:"notes"` // about who asks
	Files    []File     `json:"files"`
	Tools    []Tool     `json:"tools"`
	Results  []Recorded `json:"results"`
	Entries  []Entry    `json:"entries"`
	HTML     string     `json:"html"`
	Page     string     `json:"page"` // an HTML file, relative to the file of cases

	// What it is asked, and what a scripted model answers where no real one is asked.
	Question  string   `json:"question"`
	Questions []string `json:"questions"`
	Queries   []Query  `json:"queries"`
	Script    []Step   `json:"script"`
	// Digest is the plan of the digest: style, language, maxItems, filters and the like.
	Digest digest.Plan `json:"digest"`

	// What should come of it.
	Expect   []string `json:"expect"`
	Forbid   []string `json:"forbid"`
	Cite     []string `json:"cite"`
	Use      []string `json:"use"`
	Request  []string `json:"request"`
	Baseline string   `json:"baseline"`
	Facts    []Fact   `json:"facts"`
	// Stories are addresses of entries that tell the same: of each list one entry is to be posted.
	Stories   [][]string `json:"stories"`
	K         int        `json:"k"` // results that count; 0: 3
	Window    int        `json:"window"`
	MaxTokens int        `json:"maxTokens"`
	MinPrefix float64    `json:"minPrefix"`

	folder string // of the file of cases
}

// Turn is an earlier question with its answer.
type Turn struct {
	User   string `json:"user"`
	Answer string `json:"answer"`
}

// Said is a message of a channel.
type Said struct {
	Author string `json:"author"`
	Text   string `json:"text"`
}

// File is a file that the agent knows.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Tool is a tool that the agent may call, or that is to be found.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
	Server      string          `json:"server"`
}

// Recorded is the result of a tool. Without arguments it answers every call of the tool.
type Recorded struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
	Text  string          `json:"text"`
	Error bool            `json:"error"`
}

// Query is a search, and texts that the results should hold or tools that they should be.
type Query struct {
	Query  string   `json:"query"`
	Expect []string `json:"expect"`
}

// Step is one answer of the scripted model: calls, or a text.
type Step struct {
	Calls []ScriptedCall `json:"calls"`
	Text  string         `json:"text"`
}

// ScriptedCall is a call of a tool by the scripted model.
type ScriptedCall struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Fact is something that was said and must not be lost. Query finds it in the history; empty: it has to be in the
// request itself.
type Fact struct {
	Text  string `json:"text"`
	Query string `json:"query"`
}

// FileError says what is wrong in a file of cases, where, and what to do.
type FileError struct {
	File   string
	Line   int
	Reason string
}

func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Suite is a file of cases. Thresholds are the lowest acceptable scores by kind, 1 where none is named.
type Suite struct {
	File       string
	Thresholds map[string]float64
	Cases      []Case
}

// Limits of a file of cases.
const (
	maxSuiteBytes = 64 << 20
	maxCases      = 10_000
	maxK          = 100
)

// Parse reads a file of cases: JSON objects, one a line. Empty lines and those that begin with // are skipped. folder
// is where the pages that cases name are found. The error is a *FileError, unless reading fails.
func Parse(in io.Reader, file, folder string) (Suite, error) {
	s := Suite{File: file, Thresholds: map[string]float64{}}
	data, err := io.ReadAll(io.LimitReader(in, maxSuiteBytes+1))
	if err != nil {
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	if len(data) > maxSuiteBytes {
		return s, &FileError{file, 1, fmt.Sprintf("the file has more than %d bytes; split it", maxSuiteBytes)}
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || bytes.HasPrefix(line, []byte("//")) {
			continue
		}
		if err := s.addLine(line, folder); err != nil {
			return s, &FileError{file, n, err.Error()}
		}
		if len(s.Cases) > maxCases {
			return s, &FileError{file, n, fmt.Sprintf("more than %d cases; split the file", maxCases)}
		}
	}
	if len(s.Cases) == 0 {
		return s, &FileError{file, max(n, 1), `no case; write one, such as {"kind":"tools","tools":[…],"queries":[…]}`}
	}
	return s, nil
}

// addLine adds a case, or the thresholds.
func (s *Suite) addLine(line []byte, folder string) error {
	var head struct{ Thresholds map[string]float64 }
	if json.Unmarshal(line, &head) == nil && head.Thresholds != nil {
		for kind, t := range head.Thresholds {
			if checks[kind] == nil {
				return unknownKind(kind)
			}
			if t < 0 || t > 1 {
				return fmt.Errorf("the threshold of %s is %v; write a number from 0 to 1", kind, t)
			}
		}
		maps.Copy(s.Thresholds, head.Thresholds)
		return nil
	}
	var c Case
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("this is not a case: %w; docs/eval.md lists the fields", err)
	}
	if d.More() {
		return errors.New("more than one JSON object; write one a line")
	}
	check := checks[c.Kind]
	if check == nil {
		return unknownKind(c.Kind)
	}
	if c.K < 0 || c.K > maxK {
		return fmt.Errorf(`"k" is %d; write a number from 1 to %d`, c.K, maxK)
	}
	if err := check(c); err != nil {
		return err
	}
	if c.K == 0 {
		c.K = 3
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%s %d", c.Kind, len(s.Cases)+1)
	}
	c.folder = folder
	s.Cases = append(s.Cases, c)
	return nil
}

// unknownKind returns the error of a case whose kind is none, with those that there are.
func unknownKind(kind string) error {
	return fmt.Errorf("there is no kind %q; the kinds are %s", kind,
		strings.Join(slices.Sorted(maps.Keys(checks)), ", "))
}

// checks say for each kind what a case lacks.
var checks = map[string]func(Case) error{
	kindAnswer: func(c Case) error {
		if len(c.Expect)+len(c.Forbid)+len(c.Cite)+len(c.Use)+len(c.Request) == 0 && c.Baseline == "" {
			return errors.New("nothing is expected of the answer; " +
				`add "expect", "forbid", "cite", "use", "request" or "baseline"`)
		}
		return require(c.Question != "", `"question" is missing; write what is asked`)
	},
	kindKnowledge: func(c Case) error {
		return errors.Join(require(len(c.Files) > 0, `"files" is missing; add {"name","text"}`), checkQueries(c))
	},
	kindMemory: func(c Case) error {
		return errors.Join(require(len(c.Notes) > 0, `"notes" is missing; add texts`), checkQueries(c))
	},
	kindHistory: func(c Case) error {
		return errors.Join(require(len(c.Messages) > 0, `"messages" is missing; add {"author","text"}`), checkQueries(c))
	},
	kindTools: func(c Case) error {
		return errors.Join(require(len(c.Tools) > 0, `"tools" is missing; add {"name","description"}`), checkQueries(c))
	},
	kindPage: func(c Case) error {
		if (c.HTML == "") == (c.Page == "") {
			return errors.New(`write either "html" or "page", the name of an HTML file`)
		}
		return require(len(c.Expect)+len(c.Forbid) > 0, `nothing is expected; add "expect" or "forbid"`)
	},
	kindCompaction: func(c Case) error {
		return errors.Join(require(len(c.Turns) > 0, `"turns" is missing; add {"user","answer"}`),
			require(len(c.Facts) > 0, `"facts" is missing; add {"text","query"}`))
	},
	kindDigest: func(c Case) error {
		for _, e := range c.Entries {
			if e.Feed == "" || e.Title == "" || e.URL == "" {
				return errors.New(`an entry lacks "feed", "title" or "url"`)
			}
		}
		return require(len(c.Entries) > 0, `"entries" is missing; add {"feed","title","url","text","hours"}`)
	},
	kindPrompt: func(c Case) error {
		return errors.Join(require(len(c.Questions) > 0, `"questions" is missing; add texts`),
			require(c.MaxTokens > 0 || c.MinPrefix > 0, `nothing is expected; add "maxTokens" or "minPrefix"`))
	},
}

// require returns an error that names the remedy where something is missing in a case.
func require(ok bool, remedy string) error {
	if ok {
		return nil
	}
	return errors.New(remedy)
}

// checkQueries refuses a case of searching without queries, or with one that expects nothing.
func checkQueries(c Case) error {
	for _, q := range c.Queries {
		if q.Query == "" || len(q.Expect) == 0 {
			return errors.New(`a query lacks "query" or "expect"`)
		}
	}
	return require(len(c.Queries) > 0, `"queries" is missing; add {"query","expect"}`)
}
