package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// Limits of a text made of a payload.
const (
	maxSummaryChars = 1500
	maxValueChars   = 300
	maxCommits      = 5
	maxAlerts       = 10
	maxPairs        = 12
)

// payloadText returns a payload as text. JSON is indented.
func payloadText(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", " ") != nil {
		return text.Clean(string(body))
	}
	return out.String()
}

// object is a value of a payload. Missing values are empty, so that no payload can break a text.
type object struct{ value any }

// at returns the value under nested keys, or an empty object.
func (o object) at(keys ...string) object {
	for _, key := range keys {
		// Senders choose the form, so a value that is no object has no fields, without an error.
		fields, _ := o.value.(map[string]any)
		o = object{fields[key]}
	}
	return o
}

// list returns the elements of a list; none of anything else.
func (o object) list() []object {
	items, _ := o.value.([]any)
	var list []object
	for _, item := range items {
		list = append(list, object{item})
	}
	return list
}

// raw returns a text, number or truth value on one line, shortened.
func (o object) raw() string {
	switch v := o.value.(type) {
	case string:
		return text.Shorten(text.OneLine(v), maxValueChars)
	case json.Number, bool:
		return fmt.Sprint(v)
	}
	return ""
}

// text returns the value as Markdown that shows it as it is.
func (o object) text() string { return text.EscapeMarkdown(o.raw()) }

// link returns a title that leads to an address of the payload, or the title alone.
func link(title, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsAny(address, " ()<>\n") {
		return text.EscapeMarkdown(title)
	}
	return "[" + text.EscapeMarkdown(title) + "](" + address + ")"
}

// describePayload returns a readable text of a delivery: of GitHub, GitLab, Grafana and Alertmanager as they are known,
// of others the fields that most have.
func describePayload(header http.Header, payload any) string {
	p := object{payload}
	words := ""
	switch {
	case header.Get("X-GitHub-Event") != "":
		words = describeGitHub(header.Get("X-GitHub-Event"), p)
	case p.at("object_kind").raw() != "":
		words = describeGitLab(p)
	case len(p.at("alerts").list()) > 0:
		words = describeAlerts(p)
	}
	return cmp.Or(words, describeGeneric(p))
}

// describeGitHub says in Markdown what a delivery of GitHub is about.
func describeGitHub(event string, p object) string {
	repo := "**" + p.at("repository", "full_name").text() + "**"
	by, action := p.at("sender", "login").text(), strings.ReplaceAll(p.at("action").text(), "\\_", " ")
	item := func(kind string) string {
		o := p.at(kind)
		title := strings.TrimSpace("#" + o.at("number").raw() + " " + o.at("title").raw())
		return link(title, o.at("html_url").raw())
	}
	switch event {
	case "ping":
		return "The webhook of " + repo + " is connected."
	case "push":
		return describeCommits(repo, by, p.at("ref").raw(), p.at("compare").raw(), p.at("commits").list())
	case "pull_request":
		if action == "closed" && p.at("pull_request", "merged").raw() == "true" {
			action = "merged"
		}
		return repo + ": pull request " + item("pull_request") + " " + action + " by " + by
	case "issues":
		return repo + ": issue " + item("issue") + " " + action + " by " + by
	case "issue_comment":
		return repo + ": " + by + " wrote on " + item("issue") + ": " + p.at("comment", "body").text()
	case "release":
		name := cmp.Or(p.at("release", "name").raw(), p.at("release", "tag_name").raw())
		return repo + ": release " + link(name, p.at("release", "html_url").raw()) + " " + action
	case "workflow_run":
		run := p.at("workflow_run")
		return repo + ": workflow " + link(run.at("name").raw(), run.at("html_url").raw()) + " on " +
			run.at("head_branch").text() + ": " + cmp.Or(run.at("conclusion").text(), run.at("status").text())
	}
	return strings.TrimSpace(repo + ": " + text.EscapeMarkdown(text.OneLine(event)) + " " + action + " by " + by)
}

// describeCommits says who pushed what, and lists up to maxCommits subjects of commits.
func describeCommits(repo, by, ref, address string, commits []object) string {
	branch := strings.TrimPrefix(strings.TrimPrefix(ref, "refs/heads/"), "refs/tags/")
	pushed := link(fmt.Sprintf("%d commits", len(commits)), address)
	lines := []string{fmt.Sprintf("%s: %s pushed %s to %s", repo, by, pushed, text.EscapeMarkdown(branch))}
	for n, c := range commits {
		if n == maxCommits {
			lines = append(lines, fmt.Sprintf("- and %d more", len(commits)-n))
			break
		}
		// Not by raw, which joins the lines: the first one is the subject of the commit.
		message, _ := c.at("message").value.(string)
		subject, _, _ := strings.Cut(message, "\n")
		subject = cmp.Or(subject, c.at("id").raw())
		lines = append(lines, "- "+link(text.Shorten(text.OneLine(subject), maxValueChars), c.at("url").raw()))
	}
	return strings.Join(lines, "\n")
}

// describeGitLab says in Markdown what a delivery of GitLab is about.
func describeGitLab(p object) string {
	repo := "**" + cmp.Or(p.at("project", "path_with_namespace").text(), p.at("project", "name").text()) + "**"
	by := cmp.Or(p.at("user", "name").text(), p.at("user_name").text())
	o := p.at("object_attributes")
	title := func(mark string) string {
		return link(strings.TrimSpace(mark+o.at("iid").raw()+" "+o.at("title").raw()), o.at("url").raw())
	}
	action := cmp.Or(o.at("action").text(), o.at("state").text())
	switch kind := p.at("object_kind").raw(); kind {
	case "push", "tag_push":
		return describeCommits(repo, by, p.at("ref").raw(), p.at("project", "web_url").raw(), p.at("commits").list())
	case "merge_request":
		return repo + ": merge request " + title("!") + ", " + action + " by " + by
	case "issue":
		return repo + ": issue " + title("#") + ", " + action + " by " + by
	case "note":
		return repo + ": " + by + " " + link("wrote", o.at("url").raw()) + ": " + o.at("note").text()
	case "pipeline":
		address := cmp.Or(o.at("url").raw(), p.at("project", "web_url").raw())
		return repo + ": pipeline " + link("#"+o.at("id").raw(), address) + " on " +
			o.at("ref").text() + ": " + o.at("status").text()
	default:
		return repo + ": " + text.EscapeMarkdown(kind) + " by " + by
	}
}

// describeAlerts writes what Alertmanager and Grafana send.
func describeAlerts(p object) string {
	alerts := p.at("alerts").list()
	head := cmp.Or(
		p.at("title").raw(),
		p.at("commonLabels", "alertname").raw(),
		p.at("groupLabels", "alertname").raw(),
		"alerts",
	)
	status := cmp.Or(strings.ToUpper(p.at("status").text()), "ALERT")
	lines := []string{fmt.Sprintf("**%s**: %s", status, link(head, p.at("externalURL").raw()))}
	for n, a := range alerts {
		if n == maxAlerts {
			lines = append(lines, fmt.Sprintf("- and %d more", len(alerts)-n))
			break
		}
		name := cmp.Or(a.at("annotations", "summary").raw(), a.at("labels", "alertname").raw(), "alert")
		line := "- " + a.at("status").text() + ": " + link(name, a.at("generatorURL").raw())
		if where := a.at("labels", "instance").text(); where != "" {
			line += " on " + where
		}
		if more := a.at("annotations", "description").text(); more != "" {
			line += ": " + more
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// describeGeneric writes the fields that most senders have, or else all that are texts or numbers.
func describeGeneric(p object) string {
	first := func(keys ...string) string {
		for _, key := range keys {
			if v := p.at(key).raw(); v != "" {
				return v
			}
		}
		return ""
	}
	title := first("title", "subject", "name", "event")
	message := first("text", "message", "summary", "description", "body", "content")
	if title != "" || message != "" {
		head := link(cmp.Or(title, message), first("url", "html_url", "link"))
		var parts []string
		if title != "" {
			head = "**" + head + "**"
			parts = append(parts, text.EscapeMarkdown(message))
		}
		parts = append(parts, text.EscapeMarkdown(first("status", "state", "level", "severity")))
		parts = slices.DeleteFunc(append([]string{head}, parts...), func(s string) bool { return s == "" })
		return strings.Join(parts, " · ")
	}
	fields, _ := p.value.(map[string]any)
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if v := p.at(key).text(); v != "" && len(pairs) < maxPairs {
			pairs = append(pairs, "- "+text.EscapeMarkdown(text.Shorten(text.OneLine(key), maxValueChars))+": "+v)
		}
	}
	if len(pairs) == 0 {
		return text.EscapeMarkdown(text.Shorten(text.OneLine(fmt.Sprint(p.value)), maxSummaryChars))
	}
	return "**Webhook**\n" + strings.Join(pairs, "\n")
}
