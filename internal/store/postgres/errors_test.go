package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// What the server may answer to a write names its cause and a remedy, without the password, and counts for the
// health of the store where it concerns every write.
func TestExplain_ErrorsOfTheServer_NameCauseAndRemedy(t *testing.T) {
	for _, test := range []struct {
		code, what, remedy string
		isForAll           bool
	}{
		{"53100", "the disk of the database is full", "free some space", true},
		{"53200", "out of memory", "give it more", true},
		{"25006", "takes no changes", "target_session_attrs=read-write", true},
		{"42501", "lacks rights", "owner", true},
		{"42P01", "a table of the store is missing", "backup", true},
		{"XX001", "damage in its files", "backup", true},
		{"58030", "trouble with its disk", "log", true},
		{"57014", "took too long", "pg_stat_activity", false},
		{"54000", "larger than PostgreSQL takes", "shorter", false},
		{"22P05", "refused a statement", "log", false},
	} {
		db := &DB{name: "postgres://bot@db/raven", secret: "s3cret"}
		err := db.explain(fmt.Errorf("insert: %w", &pgconn.PgError{Code: test.code, Message: "quoting s3cret"}))
		var system *store.SystemError
		if !errors.As(err, &system) || !strings.Contains(system.What, test.what) ||
			!strings.Contains(system.Remedy, test.remedy) {
			t.Errorf("%s: %v", test.code, err)
			continue
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || !strings.Contains(text, "postgres://bot@db/raven") {
			t.Errorf("%s: the error says %s", test.code, text)
		}
		if db.health.noteWrite(err); (db.Health() != nil) != test.isForAll {
			t.Errorf("%s: health %v", test.code, db.Health())
		}
		if db.health.noteWrite(nil); db.Health() != nil {
			t.Errorf("%s: health after a write %v", test.code, db.Health())
		}
	}
}

func TestKeyText_IsReadBackAndKeepsKeysApart(t *testing.T) {
	seen := map[string]string{}
	keys := []string{"", "a", "\x00", "\x01", "\x01\"a\"", "\xff", "\xfe", "é", "a\x00b", strings.Repeat("x", 5000)}
	for _, key := range keys {
		form := keyText(key)
		if parseKey(form) != key {
			t.Errorf("%q is read back as %q", key, parseKey(form))
		}
		if other, taken := seen[form]; taken {
			t.Errorf("%q and %q have the same form", key, other)
		}
		seen[form] = key
		if n := len(foreignKey(key)); n > maxForeignKey {
			t.Errorf("the foreign key of %d bytes has %d", len(key), n)
		}
	}
	if foreignKey(strings.Repeat("x", 5000)) == foreignKey(strings.Repeat("x", 5001)) {
		t.Error("two long keys have the same form")
	}
}
