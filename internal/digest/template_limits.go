package digest

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

const (
	// maxTemplateOutput bounds the output of a template and each text that is made on the way, in bytes.
	maxTemplateOutput = 32 << 10
	// maxTemplateSteps bounds the rounds of all ranges and the uses of all named templates: some hundred items within
	// one another need fewer.
	maxTemplateSteps = 10_000
	// maxTemplateTime bounds the execution as a whole.
	maxTemplateTime = 2 * time.Second
)

var (
	errTooLong      = errors.New("the template writes too much")
	errTooManySteps = fmt.Errorf("the template takes more than %d steps: is there a range too many?", maxTemplateSteps)
	errTooSlow      = fmt.Errorf("the template takes longer than %s", maxTemplateTime)
)

// stepName is the function that limitSteps has a template call; nobody else needs it.
const stepName = "ravenbot_step"

// templateFuncs returns the functions of templates. The ones of text/template that make texts are replaced: a text that
// is doubled again and again would use up the memory before it is written.
func templateFuncs() template.FuncMap {
	limited := func(make func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) { return limitText(make(args...)) }
	}
	return template.FuncMap{
		"join":     func(list []string, by string) (string, error) { return limitText(strings.Join(list, by)) },
		"clock":    func(t time.Time) string { return t.Format("2 Jan 15:04") },
		"print":    limited(fmt.Sprint),
		"println":  limited(fmt.Sprintln),
		"printf":   func(format string, args ...any) (string, error) { return limitText(fmt.Sprintf(format, args...)) },
		"html":     limited(template.HTMLEscaper),
		"js":       limited(template.JSEscaper),
		"urlquery": limited(template.URLQueryEscaper),
		stepName:   func() string { return "" },
	}
}

// limitText returns errTooLong for a text of more than maxTemplateOutput bytes.
func limitText(s string) (string, error) {
	if len(s) > maxTemplateOutput {
		return "", errTooLong
	}
	return s, nil
}

// limitSteps makes a template call stepName in each round of its ranges and at the begin of each named template: it
// cannot be ended from outside.
func limitSteps(t *template.Template) error {
	step, err := template.New("step").Funcs(templateFuncs()).Parse("{{" + stepName + "}}")
	if err != nil {
		return err
	}
	// Named templates, too: one may call itself without any range.
	for _, one := range t.Templates() {
		if one.Tree != nil {
			insertSteps(one.Root, step.Root.Nodes[0])
			one.Root.Nodes = append([]parse.Node{step.Root.Nodes[0]}, one.Root.Nodes...)
		}
	}
	return nil
}

// insertSteps puts a node at the begin of each round of the ranges in a list.
func insertSteps(list *parse.ListNode, step parse.Node) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			insertSteps(n.List, step)
			insertSteps(n.ElseList, step)
			n.List.Nodes = append([]parse.Node{step}, n.List.Nodes...)
		case *parse.IfNode:
			insertSteps(n.List, step)
			insertSteps(n.ElseList, step)
		case *parse.WithNode:
			insertSteps(n.List, step)
			insertSteps(n.ElseList, step)
		}
	}
}

// limitedBuilder is a strings.Builder whose Write fails above maxTemplateOutput.
type limitedBuilder struct{ strings.Builder }

// Write appends to the text. It returns errTooLong, and appends nothing, where that would be too
// much.
func (s *limitedBuilder) Write(p []byte) (int, error) {
	if s.Len()+len(p) > maxTemplateOutput {
		return 0, errTooLong
	}
	return s.Builder.Write(p)
}

// executeTemplate returns what a template writes. It fails when the template does, or passes a limit.
func executeTemplate(t *template.Template, p Page) (string, error) {
	limited, err := t.Clone() // each execution counts for itself
	if err != nil {
		return "", err
	}
	steps, end := 0, time.Now().Add(maxTemplateTime)
	limited.Funcs(template.FuncMap{stepName: func() (string, error) {
		switch steps++; {
		case steps > maxTemplateSteps:
			return "", errTooManySteps
		case time.Now().After(end):
			return "", errTooSlow
		}
		return "", nil
	}})
	var b limitedBuilder
	err = limited.Execute(&b, p)
	return strings.TrimSpace(b.String()), err
}
