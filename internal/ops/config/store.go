package config

import (
	"path/filepath"
	"strings"
)

// UsesPostgres reports whether the store is a PostgreSQL database.
func (c *Config) UsesPostgres() bool {
	address := c.Store.Reveal()
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// StorePath returns the path of the store's file, to which endings are added for the files that are kept next to it.
// With PostgreSQL there is no such file, and the others are in data/, as ravenbot.token.
func (c *Config) StorePath() string {
	if c.UsesPostgres() {
		return filepath.Join(c.Dir, "data", "ravenbot")
	}
	return c.Store.Reveal()
}

// BackupFolder returns where copies of the store are kept: backup.folder, else beside the store.
func (c *Config) BackupFolder() string {
	if c.Backup.Folder != "" {
		return c.Backup.Folder
	}
	return c.StorePath() + ".backups"
}
