package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// storeFile returns the path of the store's file. It returns an error where the store is a database, and says what
// does the same there.
func storeFile(cfg *config.Config, there string) (string, error) {
	if cfg.UsesPostgres() {
		return "", usageErrorf("the store is a PostgreSQL database, and this command is for files: %s", there)
	}
	return cfg.Store.Reveal(), nil
}

// checkStore reads the whole store and prints what it holds.
func checkStore(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	path, err := storeFile(cfg, "`ravenbot doctor` tests the connection, and the database server checks its own files")
	if err != nil {
		return err
	}
	return bolt.SuggestBackup(ctx, cfg.BackupFolder(), reportStore(ctx, c, path))
}

// reportStore checks the store at path and prints the report.
func reportStore(ctx context.Context, c *invocation, path string) error {
	r, err := bolt.Check(ctx, path)
	// A damaged store still has a report, which says what can be read.
	if damaged := (*store.DamagedError)(nil); err != nil && !errors.As(err, &damaged) {
		return err
	}
	if c.json {
		return errors.Join(err, writeJSON(c.Out, r))
	}
	return errors.Join(err, printReport(c.Out, r))
}

// printReport prints the report of a check for people.
func printReport(w io.Writer, r bolt.Report) error {
	fmt.Fprintf(w, "%s: %d bytes, of which %d are free.\n", r.Path, r.Bytes, r.Free)
	if len(r.Items) > 0 {
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "NAME\tRECORDS\tIN PARTS")
		for _, i := range r.Items {
			fmt.Fprintf(t, "%s\t%d\t%d\n", i.Name, i.Records, i.Parts)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, d := range r.Damage {
		fmt.Fprintf(w, "damaged: %s\n", d)
	}
	if len(r.Damage) == 0 {
		fmt.Fprintln(w, "Nothing is damaged.")
	}
	return nil
}

// salvageStore copies what can be read of a damaged store, and prints what cannot.
func salvageStore(ctx context.Context, c *invocation) error {
	// An address would be taken for the path of a file, and the records would be where nobody looks for them.
	if slices.ContainsFunc(c.args, hasScheme) {
		return usageErrorf("FROM and TO are files; `ravenbot store migrate` copies the salvaged one to a database")
	}
	r, err := bolt.Salvage(ctx, c.args[0], c.args[1])
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, r)
	}
	fmt.Fprintf(c.Out, "%s holds the %d records of %s that could be read.\n", r.To, r.Records, r.From)
	for _, f := range r.Faults {
		fmt.Fprintf(c.Out, "damaged: %s\n", f)
	}
	if r.MoreFaults > 0 {
		fmt.Fprintf(c.Out, "damaged: %d further records or pages\n", r.MoreFaults)
	}
	if len(r.Faults) == 0 {
		fmt.Fprintln(c.Out, "Nothing was lost.")
	}
	fmt.Fprintf(c.Out, "`ravenbot restore %s` puts it in the place of the store, which is kept.\n", r.To)
	return nil
}

// compactStore returns the free space of the store to the disk.
func compactStore(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	path, err := storeFile(cfg, "its server vacuums by itself")
	if err != nil {
		return err
	}
	before, after, err := bolt.Compact(ctx, path, time.Now())
	if err != nil {
		return bolt.SuggestBackup(ctx, cfg.BackupFolder(), err)
	}
	if c.json {
		return writeJSON(c.Out, map[string]int64{"before": before, "after": after})
	}
	fmt.Fprintf(c.Out, "%s was compacted from %d to %d bytes.\n", path, before, after)
	return nil
}
