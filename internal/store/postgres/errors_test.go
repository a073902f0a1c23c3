package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		{"57P01", "shutting down", "by itself", false},
		{"57P05", "idle connection", "idle_session_timeout", false},
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

// An error that passes by itself is told from one for the operator, and what was given up by its caller is neither.
func TestExplain_WhatPasses(t *testing.T) {
	db := &DB{name: "postgres://bot@db/raven"}
	code := func(code string) error { return &pgconn.PgError{Code: code} }
	for _, test := range []struct {
		err     error
		passing bool
	}{
		{code("53300"), true}, {code("57P01"), true}, {code("57P03"), true}, {code("57P05"), true},
		{code("57014"), true}, {code("53100"), true}, {code("53200"), true}, {code("25006"), true}, {code("42501"), false},
		{code("58030"), false}, {code("28P01"), false},
		{&lostError{io.EOF}, true}, {io.ErrUnexpectedEOF, true}, {&unknownError{io.EOF}, false},
	} {
		var system *store.SystemError
		if err := db.explain(test.err); !errors.As(err, &system) || system.Passing != test.passing {
			t.Errorf("%v: %+v, want that it passes: %v", test.err, err, test.passing)
		}
	}
	for _, err := range []error{nil, context.Canceled, store.ErrNotFound} {
		if got := db.explain(err); got != err {
			t.Errorf("%v is explained as %v", err, got)
		}
	}
}

func TestDisplayName_HasNoPassword(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://bot:s3cret@db:5432/raven?sslmode=disable": "postgres://bot@db:5432/raven",
		"postgresql://db/raven":                               "postgres://db/raven",
		"postgres://bot:s3%zzcret@db/x":                       "postgres://…",
		"data/raven.db":                                       "data/raven.db",
	} {
		if got := DisplayName(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
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
	}
}
