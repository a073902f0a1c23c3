package digest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/chat"
)

// Command answers "/raven digest list", "preview NAME" and "run NAME".
func (s *Service) Command(ctx context.Context, m chat.Message) chat.Draft {
	verb, name, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	name = strings.TrimSpace(name)
	var text string
	var err error
	switch strings.ToLower(verb) {
	case "list", "":
		text, err = s.describe(ctx)
	case "preview":
		return s.shown(ctx, name)
	case "run":
		run, runErr := s.run(ctx, name, s.o.Now(), true, leave)
		text, err = fmt.Sprintf("The digest **%s** was run: nothing new since the last one.", name), runErr
		if run.Posted > 0 {
			text = fmt.Sprintf("The digest **%s** was run: it is on its way to %s with %d items.", name, s.targets(name), run.Posted)
		}
	default:
		text = "Say `digest list`, `digest preview NAME` or `digest run NAME`."
	}
	if err != nil {
		return s.excuse(name, err)
	}
	return chat.Draft{Text: text, Ephemeral: true}
}

func (s *Service) shown(ctx context.Context, name string) chat.Draft {
	p, err := s.Preview(ctx, name)
	if err != nil {
		return s.excuse(name, err)
	}
	if p.Draft.Text == "" {
		p.Draft.Text = "The digest **" + name + "** has nothing new."
	}
	p.Draft.Ephemeral = true
	return p.Draft
}

func (s *Service) excuse(name string, err error) chat.Draft {
	if errors.Is(err, ErrUnknown) {
		return chat.Draft{Failed: true, Ephemeral: true,
			Text: fmt.Sprintf("There is no digest %q; `digest list` names those there are.", name)}
	}
	s.o.Log.Error("digest not made or not posted", "digest", name, "error", err)
	return chat.Draft{Failed: true, Ephemeral: true,
		Text: fmt.Sprintf("The digest **%s** could not be made or posted. The bot's log has the reasons.", name)}
}

func (s *Service) targets(name string) string {
	var list []string
	for _, a := range s.specs[name].Post {
		list = append(list, "`"+a.String()+"`")
	}
	return strings.Join(list, ", ")
}

func (s *Service) describe(ctx context.Context) (string, error) {
	list, err := s.List(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No digest is configured.", nil
	}
	lines := []string{"**Digests**", ""}
	for _, d := range list {
		line := fmt.Sprintf("- **%s**: `%s` (%s), %d feeds to `%s`", d.Name, d.Schedule, d.Timezone, len(d.Feeds), strings.Join(d.Post, "`, `"))
		if d.Next != nil {
			line += ", next " + d.Next.Format("Mon 2 Jan 15:04 MST")
		}
		if d.Last != nil {
			line += fmt.Sprintf(", last %s with %d items", d.Last.Due.Format(time.RFC3339), d.Last.Posted)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
