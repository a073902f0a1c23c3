package sandbox

import (
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
	simmodel "ravenbot/internal/testing/sim/model"
)

// label begins what the model says, so that nobody takes it for a real answer.
const label = "(simulated model) "

// maxResultRunes is how much of a tool's result the model repeats.
const maxResultRunes = 1500

// script is the whole model: it repeats what it is told, calls a tool that is named, and writes a sentence for each
// item of a digest.
func script(r simmodel.Request) simmodel.Reply {
	if results := r.Last().Results; len(results) > 0 {
		var said []string
		for _, res := range results {
			text := []rune(res.Content)
			if len(text) > maxResultRunes {
				text = append(text[:maxResultRunes:maxResultRunes], '…')
			}
			said = append(said, "The tool "+res.Name+" answered:\n\n"+string(text))
		}
		return simmodel.Say(label + strings.Join(said, "\n\n"))
	}
	asked := r.Asked()
	// Digests first: their items may contain the name of a tool.
	if answer := digestAnswer(r.System, asked); answer != "" {
		return simmodel.Say(answer)
	}
	if call, ok := namedCall(r, asked); ok {
		return simmodel.Reply{Calls: []simmodel.Call{call}}
	}
	return simmodel.Reply{Text: strings.SplitAfter(label+"You said: "+asked, " ")}
}

var itemPattern = text.Pattern(`(?m)^(\[\d+\]) (.+?) \(.*\)$`)

// digestAnswer judges the numbered items of a digest and writes a sentence for each, where the model is asked for a
// digest, and returns "" otherwise.
func digestAnswer(system, asked string) string {
	if !strings.Contains(system, "news digest") {
		return ""
	}
	type item struct {
		N         int    `json:"n"`
		Relevance int    `json:"relevance"`
		Text      string `json:"text"`
	}
	answer := struct {
		Opening []string `json:"opening"`
		Items   []item   `json:"items"`
	}{}
	for n, m := range itemPattern().FindAllStringSubmatch(asked, -1) {
		said := label + m[2] + " " + m[1] + "."
		if n < 3 {
			answer.Opening = append(answer.Opening, said)
		}
		answer.Items = append(answer.Items, item{n + 1, 5, said})
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return ""
	}
	return string(raw)
}

var wordPattern = text.Pattern(`[A-Za-z0-9_.-]*[A-Za-z0-9_]`)

// namedCall returns a call of the first tool whose name is among the words.
func namedCall(r simmodel.Request, asked string) (simmodel.Call, bool) {
	for _, at := range wordPattern().FindAllStringIndex(asked, -1) {
		name := asked[at[0]:at[1]]
		i := slices.IndexFunc(r.Tools, func(t simmodel.Tool) bool { return t.Name == name })
		if i >= 0 && r.Declares(name) {
			return simmodel.Call{Name: name, Args: callArguments(r.Tools[i].Schema, strings.Trim(asked[at[1]:], ": \n"))}, true
		}
	}
	return simmodel.Call{}, false
}

// callArguments returns the object after the tool's name, or else the words after it as each text that the tool
// requires.
func callArguments(schema json.RawMessage, rest string) json.RawMessage {
	if json.Valid([]byte(rest)) && strings.HasPrefix(rest, "{") {
		return json.RawMessage(rest)
	}
	var s struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	args := map[string]string{}
	if json.Unmarshal(schema, &s) == nil {
		// Other types cannot be guessed from words.
		for _, name := range s.Required {
			if strings.EqualFold(s.Properties[name].Type, "string") {
				args[name] = rest
			}
		}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}
