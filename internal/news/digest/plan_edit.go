package digest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/news/feed"
)

// edit changes one field of a digest's plan.
func (s *Service) edit(ctx context.Context, d spec, words string) (string, error) {
	key, value, _ := strings.Cut(words, " ")
	value = strings.TrimSpace(value)
	if strings.EqualFold(key, "feeds") && value != "" && value[0] != '-' {
		address, _, err := s.resolveFeed(ctx, strings.TrimSpace(strings.TrimPrefix(value, "+")))
		if err != nil {
			return "", BadPlan{err}
		}
		value = "+" + address
	}
	info, err := s.Change(ctx, d.Name, func(p *Plan) error { return p.setField(key, value) })
	if err != nil {
		return "", err
	}
	text := "The digest **" + escape(info.Name) + "** is changed."
	if info.Next != nil {
		text += " Next: " + info.Next.Format("Mon 2 Jan 15:04 MST") + "."
	}
	return text, nil
}

// setField sets a field of a plan by its name, in any case.
func (p *Plan) setField(key, value string) error {
	texts := map[string]*string{"schedule": &p.Schedule, "timezone": &p.Timezone, "style": &p.Style, "language": &p.Language,
		"prompt": &p.Prompt, "whenempty": &p.WhenEmpty, "catchup": &p.CatchUp}
	numbers := map[string]*int{"maxitems": &p.MaxItems, "maxtokens": &p.MaxTokens}
	lists := map[string]*[]string{"filters": &p.Filters, "tags": &p.Tags}
	key = strings.ToLower(key)
	switch {
	case texts[key] != nil:
		*texts[key] = value
		return nil
	case numbers[key] != nil:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is not a number", value)
		}
		*numbers[key] = n
		return nil
	case lists[key] != nil:
		*lists[key] = splitList(value)
		return nil
	case key == "feeds":
		return p.setFeed(value)
	case key == "channels":
		p.Channels = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	}
	return errors.New("name a field to change: schedule, timezone, style, language, prompt, maxItems, maxTokens, whenEmpty, " +
		"catchUp, tags and filters (with commas between them), feeds with +ADDRESS or -ADDRESS, or channels")
}

// splitList returns what stands between commas.
func splitList(value string) []string {
	var list []string
	for _, one := range strings.Split(value, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// setFeed adds the feed of "+ADDRESS" or "ADDRESS" to a plan, or removes that of "-ADDRESS".
func (p *Plan) setFeed(value string) error {
	address := strings.TrimSpace(strings.TrimLeft(value, "+-"))
	if address == "" {
		return errors.New("say +ADDRESS to add a feed, -ADDRESS to take one out")
	}
	// People leave out a slash at the end, or write the host in capitals.
	isMeant := func(f Feed) bool { return feed.CanonicalURL(f.URL) == feed.CanonicalURL(address) }
	known := slices.ContainsFunc(p.Feeds, isMeant)
	switch {
	case value[0] == '-' && !known:
		return fmt.Errorf("it does not read %.100s", address)
	case value[0] == '-':
		p.Feeds = slices.DeleteFunc(slices.Clone(p.Feeds), isMeant)
	case !known:
		p.Feeds = append(slices.Clip(p.Feeds), Feed{URL: address})
	}
	return nil
}
