package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"ravenbot/internal/recall/toolsearch"
)

// maxRanked is the largest number of tools that a search returns.
const maxRanked = 1000

// maxLine is the longest line of a file of tools or requests, in bytes.
const maxLine = 4 << 20

func searchFlags(c *invocation) {
	jsonFlag(c)
	// As a long name too, so that --k is accepted like -k.
	c.flags.IntP("k", "k", 10, "rank the best `N` tools")
}

func whyFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("user", "", "the `ID` of the user on the channel's platform")
	c.flags.String("channel", "web:/general", "the `ADDRESS` where the tool would be used")
}

func simulateFlags(c *invocation) {
	whyFlags(c)
	c.flags.String("roles", "", "the `ROLES` of the user, separated by commas")
	c.flags.String("others", "", "the `IDS` of other users whose words the turn has read, separated by commas")
	c.flags.Bool("tainted", false, "as if the turn had read text of others, such as a page")
}

func evalFlags(c *invocation) {
	searchFlags(c)
	c.flags.String("tools", "", "a `FILE` of tools, a JSON object a line: name, description, "+
		"parameters (a JSON Schema) and server; "+
		"without server, the part of field before the first / names it")
	c.flags.String("queries", "",
		"a `FILE` of requests, a JSON object a line: query, and gold, the names of the right tools; "+
			"server/name where several servers have a tool of one name")
}

// resultLimit returns how many results a search prints, from -k. It returns a usage error for less than 1 or more than
// maxRanked.
func (c *invocation) resultLimit() (int, error) {
	k := c.flagInt("k")
	if k < 1 || k > maxRanked {
		return 0, usageErrorf("-k must be from 1 to %d", maxRanked)
	}
	return k, nil
}

// evaluateSearch measures the tool search against requests whose right tools are known.
func evaluateSearch(_ context.Context, c *invocation) error {
	toolFile, queryFile := c.flagText("tools"), c.flagText("queries")
	if toolFile == "" || queryFile == "" {
		return usageErrorf("name the files: --tools FILE --queries FILE")
	}
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	index, names, err := readTools(toolFile)
	if err != nil {
		return err
	}
	questions, err := readQuestions(queryFile, names)
	if err != nil {
		return err
	}
	if !c.json {
		return writeScore(c.Out, index, questions, k)
	}
	return writeRankings(c.Out, index, questions, k)
}

// writeRankings writes a JSON line for each request, and the summary last.
func writeRankings(w io.Writer, index *toolsearch.Index, questions []toolsearch.Question, k int) error {
	// Collections have thousands of requests, and a write for each would take longer than the search.
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	var failed error // the first one; a full disk shows when out is flushed
	score := index.Measure(questions, k, func(q toolsearch.Question, ranked []string) {
		failed = cmp.Or(failed, lines.Encode(rankingLine{q.Query, q.Gold, ranked}))
	})
	failed = cmp.Or(failed, lines.Encode(map[string]toolsearch.Score{"summary": score}))
	return cmp.Or(failed, out.Flush())
}

// rankingLine is what eval --json prints of one request.
type rankingLine struct {
	Query  string   `json:"query"`
	Gold   []string `json:"gold"`
	Ranked []string `json:"ranked"`
}

// writeScore writes the score as a table.
func writeScore(w io.Writer, index *toolsearch.Index, questions []toolsearch.Question, k int) error {
	s := index.Measure(questions, k, nil)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "tools\trequests\trecall@1\trecall@3\trecall@5\trecall@10\tnDCG@10\tMRR\tp50 ms\tp99 ms\t")
	fmt.Fprintf(out, "%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.2f\t%.2f\t\n", index.Len(), len(questions),
		s.Recall1, s.Recall3, s.Recall5, s.Recall10, s.NDCG10, s.MRR, s.P50Ms, s.P99Ms)
	return out.Flush()
}

// toolNames are the tools of a file by what a request may call them, server/tool or the bare name, with the name of
// each in the index. That is the bare name, but server/tool for tools of one name; their bare name leads to "".
type toolNames map[string]string

// toolLine is a line of a file of tools.
type toolLine struct {
	Name, Description, Server, Field string
	Parameters                       json.RawMessage
}

// server returns the server of a tool. Public test collections name a topic instead.
func (l toolLine) server() string {
	subject, _, _ := strings.Cut(l.Field, "/")
	return cmp.Or(l.Server, subject)
}

// readTools returns an index of a file of tools, and their names. It fails at a line that is no tool, and where a
// server has two tools of one name.
func readTools(name string) (*toolsearch.Index, toolNames, error) {
	var lines []toolLine
	names := toolNames{}
	err := eachLine(name, func(l toolLine) error {
		full := l.server() + "/" + l.Name
		_, again := names[full]
		switch {
		case l.Name == "":
			return errors.New(`"name" is missing`)
		case again:
			return fmt.Errorf("tool %q appears twice in server %q", l.Name, l.server())
		}
		names[full] = l.Name
		if other, taken := names[l.Name]; taken {
			names[full], names[l.Name] = full, ""
			// The first of that name was the only one until now.
			if other != "" {
				for _, first := range lines {
					if first.Name == l.Name {
						names[first.server()+"/"+l.Name] = first.server() + "/" + l.Name
					}
				}
			}
		} else {
			names[l.Name] = l.Name
		}
		lines = append(lines, l)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	servers := map[string]*toolsearch.Server{}
	for _, l := range lines {
		server := l.server()
		if servers[server] == nil {
			servers[server] = &toolsearch.Server{Name: server}
		}
		servers[server].Tools = append(servers[server].Tools, toolsearch.Doc{
			Name:        names[server+"/"+l.Name],
			Description: l.Description,
			Parameters:  l.Parameters,
		})
	}
	index := toolsearch.New()
	for _, s := range servers {
		index.Replace(*s)
	}
	return index, names, nil
}

// readQuestions returns the requests of a file. It fails when one names a tool that is not among names, or that several
// servers have.
func readQuestions(name string, names toolNames) ([]toolsearch.Question, error) {
	type line struct {
		Query string
		Gold  []string
	}
	var list []toolsearch.Question
	err := eachLine(name, func(l line) error {
		switch {
		case l.Query == "":
			return errors.New(`"query" is missing`)
		case len(l.Gold) == 0:
			return errors.New(`"gold" names no tool`)
		}
		for i, gold := range l.Gold {
			indexed, found := names[gold]
			if !found {
				return fmt.Errorf(`"gold" names %q, which is not among the tools`, gold)
			}
			if indexed == "" {
				return fmt.Errorf(`"gold" names %q, which several servers have: write server/%s`, gold, gold)
			}
			l.Gold[i] = indexed
		}
		list = append(list, toolsearch.Question(l))
		return nil
	})
	return list, err
}

// eachLine calls yield for each JSON line of a file, without the empty ones. Its errors name file and line.
func eachLine[T any](name string, yield func(T) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	n, seen := 0, false
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		seen = true
		var v T
		err := json.Unmarshal(lines.Bytes(), &v)
		if err == nil {
			err = yield(v)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line is longer than %d bytes", name, n+1, maxLine)
	case lines.Err() != nil:
		return fmt.Errorf("read %s: %w", name, lines.Err())
	case !seen:
		return fmt.Errorf("%s has no lines", name)
	}
	return nil
}
