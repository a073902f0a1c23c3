package storage_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/pgtest"
)

// load returns a configuration with a store and a key.
func load(t *testing.T, address, key string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	text := `{"store": "` + address + `", "storeKey": "` + base64.StdEncoding.EncodeToString([]byte(key)) + `"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c *config.Config) (*storage.Storage, error) {
	t.Helper()
	return storage.Open(t.Context(), c, slog.New(slog.DiscardHandler), time.Now)
}

const (
	oneKey     = "0123456789abcdef0123456789abcdef"
	anotherKey = "fedcba9876543210fedcba9876543210"
)

// One process alone has a store, whatever it is kept in.
func TestOpen_InUse(t *testing.T) {
	for name, address := range map[string]string{"file": filepath.Join(t.TempDir(), "raven.db"),
		"database": pgtest.Start(t)} {
		c := load(t, address, oneKey)
		s, err := open(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Owned(); err != nil {
			t.Errorf("%s: who opened the store does not own it: %v", name, err)
		}
		var inUse *store.InUseError
		if _, err := open(t, c); !errors.As(err, &inUse) {
			t.Errorf("%s: a second process got %v, want that the store is in use", name, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = open(t, c); err != nil {
			t.Fatalf("%s: after the first process: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A replica with another key could not read what the others keep encrypted.
func TestOpenBox_AnotherKeyThanTheFirst_IsRefusedOfASharedStore(t *testing.T) {
	url := pgtest.Start(t)
	for _, c := range []struct {
		key  string
		want string // in the error
	}{{oneKey, ""}, {oneKey, ""}, {anotherKey, "storeKey"}} {
		conf := load(t, url, c.key)
		s, err := open(t, conf)
		if err != nil {
			t.Fatal(err)
		}
		_, err = storage.OpenBox(t.Context(), conf, s)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("with the key %.4s…: %v, want an error with %q", c.key, err, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ravenbot doctor finds what OpenShared and OpenBox would refuse, and changes nothing.
func TestCheckShared(t *testing.T) {
	url := pgtest.Start(t)
	check := func(c *config.Config, remark, want string) {
		t.Helper()
		got, err := storage.CheckShared(t.Context(), c)
		if got != remark || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v; want %q and an error with %q", got, err, remark, want)
		}
	}
	first := load(t, url, oneKey)
	check(first, "the first start makes its tables", "")
	s, err := open(t, first)
	if err != nil {
		t.Fatal(err)
	}
	check(load(t, url, anotherKey), "", "") // no key counts yet
	if _, err := storage.OpenBox(t.Context(), first, s); err != nil {
		t.Fatal(err)
	}
	check(first, "", "")
	check(load(t, url, anotherKey), "", "storeKey")
	keyless := load(t, url, "")
	check(keyless, "", "storeKey")
	if _, err := os.Stat(keyless.StorePath() + ".key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has made a key: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// ravenbot doctor says how far the clock of this machine is from that of the database.
func TestCheckShared_ClockIsWrong_IsSaid(t *testing.T) {
	c := pgtest.NewCluster(t, pgtest.Options{})
	conf := load(t, c.Database(t), oneKey)
	s, err := open(t, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	url := conf.Store.Reveal()
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	for _, sql := range []string{"create schema another", `create function another.clock_timestamp() returns timestamptz
		language sql volatile as $$ select pg_catalog.clock_timestamp() - interval '5 minutes' $$`,
		"alter database " + name + " set search_path = another, pg_catalog"} {
		if err := c.Exec(t.Context(), name, sql); err != nil {
			t.Fatal(err)
		}
	}
	const want = "ahead of the database's clock"
	if remark, err := storage.CheckShared(t.Context(), conf); err != nil || !strings.Contains(remark, want) {
		t.Errorf("%q, %v", remark, err)
	}
}
