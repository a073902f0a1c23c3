package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"ravenbot/internal/ops/audit"
)

func verifyFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("head", "", "want `SEQ:HASH` to be an entry of the chain, as the log named it")
}

// exportAudit writes the audit as JSON lines, oldest first, to a file, which must not exist without --overwrite, or,
// without a name or with -, to standard output.
func exportAudit(ctx context.Context, c *invocation) error {
	file := strings.Join(c.args, "")
	// Before the bot begins to send: an export is an entry of the audit.
	cfg, err := c.checkOutput(file)
	if err != nil {
		return err
	}
	d, release, err := c.apiOf(ctx, cfg)
	if err != nil {
		return err
	}
	res, err := d.do(ctx, http.MethodPost, "/api/v1/audit/export", nil)
	if err == nil {
		err = errors.Join(c.writeOutput(file, res.Body), res.Body.Close())
	}
	return errors.Join(err, release())
}

// verifyAudit checks the chain of an export, or of the bot's own audit. Its error names the first entry that was
// changed, removed or added.
func verifyAudit(ctx context.Context, c *invocation) error {
	var report audit.Report
	anchor, err := audit.ParseLink(c.flagText("head"))
	if err != nil {
		return usageErrorf("--head: %v", err)
	}
	if len(c.args) == 0 {
		head := url.Values{"head": {c.flagText("head")}}.Encode()
		err = c.requestAPI(ctx, http.MethodGet, "/api/v1/audit/verify?"+head, nil, &report)
	} else {
		report, err = verifyAuditFile(c, c.args[0], anchor)
	}
	if err != nil {
		return err
	}
	if c.json {
		if err := writeJSON(c.Out, report); err != nil {
			return err
		}
	}
	if report.Problem != "" {
		return fmt.Errorf("the audit was tampered with: %s; %d entries are in order", report.Problem, report.Entries)
	}
	if c.json {
		return nil
	}
	what := fmt.Sprintf("%d entries are", report.Entries)
	if report.Entries == 1 {
		what = "1 entry is"
	}
	fmt.Fprintf(c.Out, "%s in order; the newest is %d:%s\n", what, report.Head.Seq, report.Head.Hash)
	if report.Before > 0 {
		fmt.Fprintf(c.Out, "The first is %d: the %d before it are older than the %d that are kept, and are not checked\n",
			report.First, report.Before, audit.MaxEntries)
	}
	return nil
}

// verifyAuditFile checks the chain of an export, or with - that of standard input. A chain that does not hold is no
// error but the Problem of the report.
func verifyAuditFile(c *invocation, name string, anchor audit.Link) (audit.Report, error) {
	if name == "-" {
		return audit.VerifyExport(c.In, anchor)
	}
	f, err := os.Open(name)
	if err != nil {
		return audit.Report{}, err
	}
	report, err := audit.VerifyExport(f, anchor)
	return report, errors.Join(err, f.Close())
}
