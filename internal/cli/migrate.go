package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/migrate"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
)

// migration is what store migrate says with --json.
type migration struct {
	From string `json:"from"`
	To   string `json:"to"`
	migrate.Report
}

// migrateStore copies every record of a store to another one, compares the two, and prints how many there are. The
// first stays as it is. A migration that was cut off is repeated from the beginning with the same names.
func migrateStore(ctx context.Context, c *invocation) (err error) {
	from, to := c.args[0], c.args[1]
	if from == to {
		return usageErrorf("FROM and TO are the same store")
	}
	for _, name := range c.args {
		if hasScheme(name) && !isDatabase(name) {
			return usageErrorf("FROM and TO are paths or postgres:// addresses")
		}
	}
	source, err := openSource(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openTarget(ctx, to)
	if errors.Is(err, store.ErrExists) {
		return fmt.Errorf("%w; name a new file or an empty database (what a migration that was stopped has left incomplete "+
			"would be replaced: this store was completed, or used since)", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	report, err := migrate.Run(ctx, source, target, c.migrationProgress())
	if err != nil {
		return err
	}
	result := migration{postgres.DisplayName(from), postgres.DisplayName(to), report}
	if c.json {
		return writeJSON(c.Out, result)
	}
	return errors.Join(printMigration(c.Out, result), printBeside(c.Out, from))
}

// isDatabase reports whether a store is named by the URL of a PostgreSQL database. Other names are paths of files.
func isDatabase(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// hasScheme reports whether a store is named by an address, of a database or of something else.
func hasScheme(name string) bool { return strings.Contains(name, "://") }

// openSource opens a store, which must be there, so that no daemon can.
func openSource(ctx context.Context, name string) (store.Source, error) {
	if isDatabase(name) {
		db, err := postgres.OpenSource(ctx, name, postgres.Options{Specs: records.Specs()})
		if err != nil {
			return nil, err
		}
		return records.New(db), nil
	}
	// OpenFile makes a new store where there is none, and an empty one would be copied.
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("open the store to be copied: %w", err)
	}
	return storage.OpenFile(name, time.Now)
}

// openTarget opens a store that is new, or empty, or that a migration has not filled.
func openTarget(ctx context.Context, name string) (store.Target, error) {
	if isDatabase(name) {
		db, err := postgres.OpenTarget(ctx, name, postgres.Options{Specs: records.Specs()})
		if err != nil {
			return nil, err
		}
		return records.NewTarget(db), nil
	}
	db, err := bolt.OpenTarget(ctx, name, time.Now)
	if err != nil {
		return nil, err
	}
	return records.NewTarget(db), nil
}

// progressEvery is how often a migration says how far it is.
const progressEvery = 2 * time.Second

// migrationProgress returns what shows on a terminal how far a migration is.
func (c *invocation) migrationProgress() migrate.Progress {
	last := time.Now()
	return func(records uint64, compared bool) {
		now := time.Now()
		if !isTerminal(c.Err) || now.Sub(last) < progressEvery {
			return
		}
		last = now
		doing := "copied"
		if compared {
			doing = "compared"
		}
		fmt.Fprintf(c.Err, "%d records %s\n", records, doing)
	}
}

// printMigration prints the result of a migration for people.
func printMigration(w io.Writer, m migration) error {
	fmt.Fprintf(w, "%s holds the %d records of %s; both were read and are the same.\n", m.To, m.Records, m.From)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tRECORDS")
	for _, k := range m.Kinds {
		fmt.Fprintf(t, "%s\t%d\n", k.Kind, k.Records)
	}
	return t.Flush()
}

// printBeside names what is kept in files beside a store, and is needed beside the other one as well.
func printBeside(w io.Writer, from string) error {
	if isDatabase(from) {
		from = filepath.Join("data", "ravenbot")
	}
	for _, beside := range []struct{ suffix, what string }{
		{".key", "the key of the secrets in it"},
		{".files", "the files of agents"},
	} {
		if _, err := os.Stat(from + beside.suffix); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fmt.Fprintf(w, "Copy %s, too: it holds %s, which are not in the store.\n", from+beside.suffix, beside.what)
	}
	return nil
}
