package cli

import (
	"context"
	"fmt"
	"path"
	"slices"

	"ravenbot/internal/ops/egress"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/tools/web"
)

func webFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("url", "", "the address, `U`, that a file was served from")
}

// readOutput is what web read prints of one page.
type readOutput struct {
	File  string `json:"file,omitempty"`
	Error string `json:"error,omitempty"`
	*web.Page
}

// readPages prints the main text of files and addresses, as the tool web_fetch reads them. One that cannot be read does
// not keep it from the others; they are counted in the error at the end.
func readPages(ctx context.Context, c *invocation) error {
	reader := web.Reader{Documents: document.NewReader(readPDF)}
	// Files alone need no configuration, and no network.
	if slices.ContainsFunc(c.args, isAddress) {
		client, err := c.newPageClient()
		if err != nil {
			return err
		}
		defer client.CloseIdle()
		reader.Client = client
	}
	failures := 0
	for _, name := range c.args {
		p, err := c.readPage(ctx, reader, name)
		if err != nil {
			failures++
		}
		if err := c.printPage(name, p, err); err != nil {
			return err
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d of %d could not be read", failures, len(c.args))
	}
	return nil
}

// newPageClient returns a client with the same guard against private addresses as the bot's.
func (c *invocation) newPageClient() (*egress.Client, error) {
	cfg, err := c.configForAddresses()
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Options{AllowPrivateHosts: cfg.Egress.AllowPrivateHosts, UserAgent: egress.UserAgent})
}

// readPage reads a page from an address, or else from a file or with - from standard input, as if it had come from
// --url.
func (c *invocation) readPage(ctx context.Context, reader web.Reader, name string) (web.Page, error) {
	if isAddress(name) {
		return reader.Read(ctx, name)
	}
	data, err := readFile(c, name, maxText)
	if err != nil {
		return web.Page{}, err
	}
	return reader.ReadFile(ctx, data, "", c.flagText("url"), path.Base(name))
}

// printPage prints a page, or why it could not be read.
func (c *invocation) printPage(name string, p web.Page, failure error) error {
	out := readOutput{Page: &p}
	if failure != nil {
		out = readOutput{Error: failure.Error()}
		// With several files the JSON line has the error.
		if len(c.args) == 1 || !c.json {
			fmt.Fprintf(c.Err, "%s: %v\n", name, failure)
			return nil
		}
	}
	if !c.json {
		_, err := fmt.Fprintln(c.Out, p.Markdown())
		return err
	}
	if len(c.args) > 1 {
		out.File = name
	}
	return writeJSON(c.Out, out)
}
