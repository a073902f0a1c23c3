package simdiscord

import (
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// draft is the body of a request that writes a message; a nil pointer is a
// field that was absent.
type draft struct {
	Content         *string            `json:"content"`
	Embeds          *[]json.RawMessage `json:"embeds"`
	Components      *[]json.RawMessage `json:"components"`
	AllowedMentions *allowed           `json:"allowed_mentions"`
	Nonce           json.RawMessage    `json:"nonce"`
	EnforceNonce    bool               `json:"enforce_nonce"`
	Flags           *int               `json:"flags"`
	StickerIDs      []string           `json:"sticker_ids"`
	Poll            json.RawMessage    `json:"poll"`
	Attachments     *[]struct {
		ID       json.RawMessage `json:"id"`
		Filename string          `json:"filename"`
	} `json:"attachments"`
	Reference *struct {
		MessageID       string `json:"message_id"`
		ChannelID       string `json:"channel_id"`
		FailIfNotExists *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`
}

// newCall reads the JSON of a request, be it the body or payload_json, and its files.
func newCall(r *http.Request) (*call, *apiError) {
	c := &call{Request: r}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return c, fail(400, 0, "400: Bad Request")
	}
	c.body = body
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		return c, c.readParts(params["boundary"])
	}
	if len(body) > 0 && !json.Valid(body) {
		return c, fail(400, 50109, "The request body contains invalid JSON.")
	}
	return c, nil
}

// readParts reads a multipart request: the part payload_json takes the place of the body, and each other part is a
// file.
func (c *call) readParts(boundary string) *apiError {
	reader := multipart.NewReader(strings.NewReader(string(c.body)), boundary)
	c.body = nil
	for {
		part, err := reader.NextPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fail(400, 50035, "Invalid Form Body")
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return fail(400, 50035, "Invalid Form Body")
		}
		if part.FormName() == "payload_json" {
			c.body = data
			continue
		}
		if len(data) > 10<<20 {
			return fail(413, 40005, "Request entity too large")
		}
		c.files = append(c.files, File{Name: part.FileName(), ContentType: part.Header.Get("Content-Type"), Body: data})
	}
}

// draft returns the message that a request holds, checked against Discord's limits. Without a body it is empty, which
// is allowed while there are files.
func (c *call) draft() (draft, *apiError) {
	var d draft
	if len(c.body) == 0 {
		return d, nil
	}
	if json.Unmarshal(c.body, &d) != nil {
		return d, fail(400, 50035, "Invalid Form Body")
	}
	return d, d.check()
}

// nonce returns the nonce as text: Discord accepts an integer or a string.
func (d draft) nonce() string {
	var text string
	if json.Unmarshal(d.Nonce, &text) == nil {
		return text
	}
	return string(d.Nonce)
}

// check refuses what is longer than Discord allows (2,000 characters of text, 25 of a nonce), and text or embeds beside
// components of the second version.
func (d draft) check() *apiError {
	v2 := d.Flags != nil && *d.Flags&FlagComponentsV2 != 0
	if d.Content != nil && utf8.RuneCountInString(*d.Content) > 2000 {
		return tooLong("content", 2000)
	}
	if utf8.RuneCountInString(d.nonce()) > 25 {
		return tooLong("nonce", 25)
	}
	if v2 && (d.Content != nil && *d.Content != "" || d.Embeds != nil && len(*d.Embeds) > 0) {
		return badForm(
			"flags",
			"MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
			"Legacy fields cannot be used with components V2",
		)
	}
	if d.Embeds != nil {
		if err := checkEmbeds(*d.Embeds); err != nil {
			return err
		}
	}
	if d.Components != nil {
		if err := checkComponents(*d.Components, v2); err != nil {
			return err
		}
	}
	return d.AllowedMentions.check()
}

// check refuses unknown kinds, more than 100 users or roles, and a kind that is allowed as a whole and listed as well.
// nil allows everything.
func (a *allowed) check() *apiError {
	if a == nil {
		return nil
	}
	for _, kind := range a.Parse {
		if !slices.Contains([]string{"users", "roles", "everyone"}, kind) {
			return badForm("allowed_mentions.parse", "BASE_TYPE_CHOICES", "Value must be one of {'users', 'roles', 'everyone'}.")
		}
	}
	if len(a.Users) > 100 || len(a.Roles) > 100 {
		return tooLong("allowed_mentions", 100)
	}
	if slices.Contains(a.Parse, "users") && len(a.Users) > 0 || slices.Contains(a.Parse, "roles") && len(a.Roles) > 0 {
		return badForm(
			"allowed_mentions",
			"MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
			"parse and the list of the same kind are mutually exclusive.",
		)
	}
	return nil
}

type embed struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Footer      struct {
		Text string `json:"text"`
	} `json:"footer"`
	Author struct {
		Name string `json:"name"`
	} `json:"author"`
	Fields []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"fields"`
}

// checkEmbeds refuses more than 10 embeds, fields over their limits, and more than 6,000 characters over all of them.
func checkEmbeds(list []json.RawMessage) *apiError {
	if len(list) > 10 {
		return tooLong("embeds", 10)
	}
	total := 0
	for i, raw := range list {
		var e embed
		if json.Unmarshal(raw, &e) != nil {
			return badForm("embeds", "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType")
		}
		at := "embeds." + strconv.Itoa(i) + "."
		var err *apiError
		count := func(field, text string, limit int) {
			n := utf8.RuneCountInString(text)
			total += n
			if n > limit && err == nil {
				err = tooLong(at+field, limit)
			}
		}
		count("title", e.Title, 256)
		count("description", e.Description, 4096)
		count("footer.text", e.Footer.Text, 2048)
		count("author.name", e.Author.Name, 256)
		for j, f := range e.Fields {
			field := "fields." + strconv.Itoa(j)
			count(field+".name", f.Name, 256)
			count(field+".value", f.Value, 1024)
			if (f.Name == "" || f.Value == "") && err == nil {
				err = badForm(at+field, "BASE_TYPE_REQUIRED", "This field is required")
			}
		}
		if len(e.Fields) > 25 && err == nil {
			err = tooLong(at+"fields", 25)
		}
		if err != nil {
			return err
		}
	}
	if total > 6000 {
		return badForm("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")
	}
	return nil
}

// checkComponents refuses more than 5 rows or, in the second version, 40 components and 4,000 characters over all; ids
// over 100 and labels over 80 characters; an id that is there twice; and rows that do not hold 1 to 5 components.
func checkComponents(list []json.RawMessage, v2 bool) *apiError {
	if !v2 && len(list) > 5 {
		return tooLong("components", 5)
	}
	count, chars := 0, 0
	var err *apiError
	ids := map[string]bool{}
	walkComponents(list, func(c map[string]any) {
		count++
		text, _ := c["content"].(string)
		chars += utf8.RuneCountInString(text)
		id, _ := c["custom_id"].(string)
		label, _ := c["label"].(string)
		children, _ := c["components"].([]any)
		switch {
		case err != nil:
		case utf8.RuneCountInString(id) > 100:
			err = tooLong("components.custom_id", 100)
		case utf8.RuneCountInString(label) > 80:
			err = tooLong("components.label", 80)
		case id != "" && ids[id]:
			err = badForm("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
		case componentType(c) == 1 && (len(children) < 1 || len(children) > 5):
			err = badForm("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
		case !v2 && componentType(c) >= 9:
			err = badForm("components", "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of (1,).")
		}
		ids[id] = true
	})
	if err == nil && (count > 40 || chars > 4000) {
		err = badForm("components", "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", "At most 40 components and 4000 characters.")
	}
	return err
}

// isEmpty reports whether a new message would show nothing.
func (d draft) isEmpty(files int) bool {
	return (d.Content == nil || strings.TrimSpace(*d.Content) == "") && (d.Embeds == nil || len(*d.Embeds) == 0) &&
		(d.Components == nil || len(*d.Components) == 0) && files == 0 && len(d.StickerIDs) == 0 && len(d.Poll) == 0
}

// apply writes the draft's fields into a post, leaving absent ones alone.
func (d draft) apply(p *Post, files []File) {
	if d.Content != nil {
		p.Content = *d.Content
	}
	if d.Embeds != nil {
		p.Embeds = *d.Embeds
	}
	if d.Components != nil {
		p.Components = *d.Components
	}
	if d.Flags != nil {
		p.Flags = p.Flags&FlagEphemeral | *d.Flags
	}
	if d.Attachments != nil && len(p.Files) > 0 {
		p.Files = slices.DeleteFunc(p.Files, func(f File) bool { return !d.keepsFile(f.ID) })
	}
	p.Files = append(p.Files, files...)
}

// keepsFile reports whether a file that is there stays. A new one is meant by its number
// in the request, which is no id.
func (d draft) keepsFile(id string) bool {
	for _, a := range *d.Attachments {
		if strings.Trim(string(a.ID), `"`) == id {
			return true
		}
	}
	return false
}
