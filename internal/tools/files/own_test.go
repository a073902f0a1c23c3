package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A root that holds the bot's own files gives out none of them, under whatever name, and keeps giving out the others.
func TestOwnFiles_WhateverTheRoot_AreNeitherGivenOutNorChanged(t *testing.T) {
	d := newDesk(t)
	own := []string{"bot/config.json", "bot/.env", "bot/data/ravenbot.db", "bot/data/ravenbot.db.backups"}
	for _, name := range append(own[:3:3], "bot/.env.local", "bot/config.json.old", "bot/data/ravenbot.db.token",
		"bot/data/ravenbot.db.key", "bot/data/ravenbot.db.initialized", "bot/data/ravenbot.db.backups/1.db") {
		d.put(name, "secret of the bot")
	}
	d.put("bot/data/ravenbot.dbx", "no secret")
	d.link("data", "bot/link")
	d.link(".env", "bot/harmless.txt")
	if err := os.Link(filepath.Join(d.dir, "bot/.env"), filepath.Join(d.dir, "bot/hard.txt")); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, name := range own {
		paths = append(paths, filepath.Join(d.dir, name))
	}
	for _, one := range Tools([]Root{{Name: "bot", Path: filepath.Join(d.dir, "bot"), Write: true}}, paths) {
		d.all[one.Spec().Name] = one
	}
	for _, name := range []string{".env", ".ENV", "./.env", ".env.local", "config.json", "config.json.old",
		"data/ravenbot.db",
		"data/ravenbot.db.token", "data/ravenbot.db.key", "data/ravenbot.db.initialized", "data/ravenbot.db.backups/1.db",
		"link/ravenbot.db.token", "harmless.txt", "hard.txt"} {
		d.refuses("read", in{"path": "bot/" + name}, "own files")
		d.refuses("edit", in{"path": "bot/" + name, "old": "secret", "new": "x"}, "own files")
		if name != "hard.txt" { // replacing a second name leaves the file itself as it is
			d.refuses("write", in{"path": "bot/" + name, "text": "x"}, "own files")
		}
	}
	d.says("read", in{"path": "bot/data/ravenbot.dbx"}, "bot/data/ravenbot.dbx, lines 1 to 1, its end:\n\nno secret")
	for _, res := range []string{
		d.call("search", in{"pattern": "secret"}).Text,
		d.call("list", in{"path": "bot", "depth": 5}).Text,
		d.call("list", in{"path": "bot/**/*"}).Text,
	} {
		if strings.Contains(res, "of the bot") || strings.Contains(res, "ravenbot.db.token") ||
			strings.Contains(res, ".env (") {
			t.Errorf("shows the bot's own files:\n%s", res)
		}
		if !strings.Contains(res, "ravenbot.dbx") {
			t.Errorf("hides another file:\n%s", res)
		}
	}
	// Names that are yet to be written count, too: .env may be missing.
	if err := os.Remove(filepath.Join(d.dir, "bot/.env")); err != nil {
		t.Fatal(err)
	}
	d.refuses("write", in{"path": "bot/.env", "text": "x"}, "own files")
	d.refuses("write", in{"path": "bot/link/ravenbot.db.new", "text": "x"}, "own files")
	d.refuses("list", in{"path": "bot/data/ravenbot.db.backups"}, "own files")
}
