package postgres_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// makeFormat makes the tables as an older version did.
func makeFormat(t *testing.T, conn *pgx.Conn, format int) {
	t.Helper()
	statements := []string{
		"create schema ravenbot",
		`create table ravenbot.format (one boolean primary key default true check (one), number int not null,
			state text not null default 'ready')`,
		fmt.Sprintf("insert into ravenbot.format (number) values (%d)", format),
	}
	for n := range format {
		text, err := os.ReadFile(fmt.Sprintf("migrations/%04d.sql", n+1))
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, string(text))
	}
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// collectionOf are the collections of what version 6 of the format named kinds of records.
var collectionOf = map[string]string{"waiting": "inbox", "post": "outbox", "done": "done", "stream": "streams",
	"lastSeen": "heard", "turn": "turns", "message": "messages", "messageTurn": "places", "quote": "quotes",
	"summary": "summaries", "call": "calls", "result": "results", "approval": "approvals", "feedback": "feedback",
	"shownTurn": "shown", "feed": "feeds", "seenItem": "seen", "run": "runs", "subscription": "subscriptions",
	"entry": "rooms", "roomFile": "roomfiles", "memory": "memories", "usage": "usage", "setting": "settings",
	"blob": "tools", "item": "items"}

// format6Records returns what the records of testdata/format6.sql are in collections: format6.txt has them as version 6
// wrote them for another engine, with the numbers of their groups.
func format6Records(t *testing.T) (want []string) {
	t.Helper()
	file, err := os.ReadFile("testdata/format6.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var kind, group, key string
		var seq uint64
		if _, err := fmt.Sscanf(line, "%s %q %q %d", &kind, &group, &key, &seq); err != nil {
			t.Fatal(line, err)
		}
		head := fmt.Sprintf("%s %q %q %d ", kind, group, key, seq)
		want = append(want, recordsOf(t, kind, group, key, seq, strings.TrimSuffix(line[len(head):], "\n"))...)
	}
	return want
}

// recordsOf returns the records that one record of version 6 has become.
func recordsOf(t *testing.T, kind, group, key string, seq uint64, body string) []string {
	t.Helper()
	name := collectionOf[kind]
	if body == "" {
		if kind == "seenItem" {
			seq = 1 // the digest has seen an item
		}
		if seq == 0 {
			return nil
		}
		return []string{fmt.Sprintf("%s %q number %d", name, group, seq)}
	}
	record := func(name, group, key, body string) string {
		return fmt.Sprintf("%s %q %q %s", name, group, key, sameJSON(t, body))
	}
	list := []string{}
	switch kind {
	case "feed", "subscription", "seenItem":
		key = cutKey(key)
	case "entry":
		var e struct{ ID string }
		decode(t, body, &e)
		list = append(list, record("entries", group, e.ID, fmt.Sprint(kv.ParseNumber(key))))
	case "message":
		a, platform := group, strings.SplitN(group, ":", 2)[0]
		at := base64.StdEncoding.EncodeToString([]byte(key))
		list = append(list, record("messageids", "", kv.Key(platform, key[len(kv.TimeKey(time.Time{})):], a), `"`+at+`"`))
	case "roomFile":
		var f map[string]any
		decode(t, body, &f)
		data, err := base64.StdEncoding.DecodeString(fmt.Sprint(f["data"]))
		if err != nil {
			t.Fatal(err)
		}
		delete(f, "data")
		f["bytes"] = len(data)
		without, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("filedata %q %q %s", group, key+kv.NumberKey(0), data))
		body = string(without)
	}
	return append(list, record(name, group, key, body))
}

// cutKey is how keys that feeds choose are shortened.
func cutKey(key string) string {
	if len(key) <= 1000 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return strings.ToValidUTF8(key[:936], "") + hex.EncodeToString(sum[:])
}

func decode(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// sameJSON returns JSON in one form, without values that a record leaves out if they are zero.
func sameJSON(t *testing.T, body string) string {
	t.Helper()
	var value any
	d := json.NewDecoder(bytes.NewReader([]byte(body)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if m, ok := value.(map[string]any); ok && m["tokens"] != nil {
		for _, zero := range []struct {
			in         map[string]any
			name, text string
		}{{m, "user", ""}, {m["tokens"].(map[string]any), "cached", "0"}} {
			if fmt.Sprint(zero.in[zero.name]) == zero.text {
				delete(zero.in, zero.name)
			}
		}
	}
	same, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(same)
}

// format6Specs returns the collections that are there after the migration, with a time for those that had one.
func format6Specs() (list []*kv.Spec) {
	grouped := []string{"turns", "messages", "seen", "runs", "rooms", "roomfiles", "filedata", "memories", "items",
		"entries"}
	names := []string{"messageids", "filedata", "entries"}
	for _, name := range collectionOf {
		names = append(names, name)
	}
	for _, name := range names {
		s := &kv.Spec{Name: name, Grouped: slices.Contains(grouped, name)}
		switch name {
		case "done":
			s.At = func(value []byte) (time.Time, error) {
				var r struct{ Done time.Time }
				err := json.Unmarshal(value, &r)
				return r.Done, err
			}
		case "inbox", "outbox":
			s.Owner = func([]byte) (string, error) { return "", nil }
		}
		list = append(list, s)
	}
	return list
}

// All records of the format before, and the numbers of their groups, are in collections afterwards, as the engine of a
// file writes them.
func TestOpen_Format6_BecomesCollections(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	conn := connect(t, url)
	makeFormat(t, conn, 6)
	data, err := os.ReadFile("testdata/format6.sql")
	if err != nil {
		t.Fatal(err)
	}
	const large = 600_000
	for _, sql := range []string{string(data), `insert into ravenbot.room_files (room, n, v, record, data, at) values
		('large', 7, 1, '{"name":"old","size":3}', decode(repeat('ab', 600000), 'hex'), now())`,
		`update ravenbot.inbox set owner = 5 where key = 'web/waits'`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	specs := format6Specs()
	db, err := postgres.Open(t.Context(), url, postgres.Options{Specs: specs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := format6Records(t)
	for from := 0; from < large; from += 256 << 10 {
		piece := strings.Repeat("\xab", min(256<<10, large-from))
		want = append(want, fmt.Sprintf("filedata %q %q %s", "large", kv.NumberKey(7)+kv.NumberKey(uint64(from>>18)), piece))
	}
	want = append(want, fmt.Sprintf(`roomfiles "large" %q {"at":"0001-01-01T00:00:00Z","bytes":600000,"name":"old","size":3}`,
		kv.NumberKey(7)))
	var got []string
	for _, s := range specs {
		got = append(got, dump(t, db, s)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%.20000s", diff)
	}
	checkMigrated(t, conn, specs)
}

// dump returns all that is in a collection.
func dump(t *testing.T, db *postgres.DB, s *kv.Spec) (all []string) {
	t.Helper()
	err := db.View(t.Context(), func(tx kv.Tx) error {
		all = nil
		return tx.Groups(s, "", "", func(group string) error {
			if n, err := tx.Number(s, group); err != nil {
				return err
			} else if n > 0 {
				all = append(all, fmt.Sprintf("%s %q number %d", s.Name, group, n))
			}
			return tx.Scan(s, kv.Range{Group: group}, func(e kv.Entry) error {
				text := string(e.Value)
				if s.Name != "filedata" {
					text = sameJSON(t, text)
				}
				all = append(all, fmt.Sprintf("%s %q %q %s", s.Name, group, e.Key, text))
				return e.Err
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkMigrated checks what is not in a dump: owners, times, and that the tables before are gone.
func checkMigrated(t *testing.T, conn *pgx.Conn, specs []*kv.Spec) {
	t.Helper()
	var owned, timed, older int
	err := conn.QueryRow(t.Context(), `select (select count(*) from ravenbot.c_inbox where owner = 5),
		(select count(*) from ravenbot.c_done where at = extract(epoch from timestamptz '2026-11-22 12:00:00Z') * 1000000000
			+ 123456789),
		(select count(*) from pg_class where relnamespace = 'ravenbot'::regnamespace and relkind in ('r', 'S')
			and relname in ('inbox', 'posts', 'turns', 'blobs', 'post_seq'))
			+ (select count(*) from pg_proc where pronamespace = 'ravenbot'::regnamespace)`).Scan(&owned, &timed, &older)
	if err != nil || owned != 1 || timed != 7 || older != 0 {
		t.Errorf("%d records have their owner, %d their time, %d older tables and functions are left (%v)", owned, timed,
			older, err)
	}
	// A new collection, and a time for one that had none, need no migration.
	later := append(slices.Clone(specs), &kv.Spec{Name: "later", Grouped: true})
	again, err := postgres.Open(t.Context(), conn.Config().ConnString(), postgres.Options{Specs: later})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `select from ravenbot.c_later`); err != nil {
		t.Error(err)
	}
}
