package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TokenPath returns where the administrator's token is kept when http.adminToken is empty: beside the store.
func (c *Config) TokenPath() string { return c.StorePath() + ".token" }

// AdminToken returns the administrator's token for the daemon: the configured one, or else the one kept beside the
// store, which the first call creates. created reports whether this call created it. Concurrent first calls agree on
// one token.
func (c *Config) AdminToken() (token Secret, created bool, err error) {
	token, err = c.FindAdminToken()
	if !errors.Is(err, fs.ErrNotExist) {
		return token, false, err
	}
	// Another process may have been faster; its token is as good.
	var folder *FolderError
	if err := writeNewToken(c.TokenPath()); errors.As(err, &folder) {
		return "", false, err
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, fmt.Errorf("make the administrator's token: %w", err)
	} else if err == nil {
		created = true
	}
	token, err = c.FindAdminToken()
	return token, created, err
}

// FindAdminToken is AdminToken for commands that talk to a running daemon: it creates nothing. The error wraps
// fs.ErrNotExist when no daemon has created a token yet; a file that others can read, or that is empty, is an error,
// too.
func (c *Config) FindAdminToken() (Secret, error) {
	if c.HTTP.AdminToken != "" {
		return c.HTTP.AdminToken, nil
	}
	path := c.TokenPath()
	text, err := readLimited(path, 4096)
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("the administrator's token %s must not be readable: %w; run this as the user that the bot runs as "+
			"(sudo -u USER), to whom the file has to belong", path, plainCause(err))
	}
	if err != nil {
		return "", fmt.Errorf("read the administrator's token %s: %w", path, plainCause(err))
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read the administrator's token %s: %w", path, plainCause(err))
	}
	// Whoever can read the token can run every tool.
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf(
			"the administrator's token in %s can be read by others: chmod 600 it, or delete it to have a new one made",
			path,
		)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("the administrator's token in %s is empty: delete the file to have a new one made", path)
	}
	return Secret(token), nil
}

// FolderError is returned where the folder of the store cannot be made; Err is the operating system's.
type FolderError struct {
	Folder string
	Err    error
}

func (e *FolderError) Error() string {
	return fmt.Sprintf("store: the folder %s cannot be made: %v; choose another path", e.Folder, plainCause(e.Err))
}

func (e *FolderError) Unwrap() error { return e.Err }

// writeNewToken writes a new token so that the file is either absent or complete, and never replaces an existing one.
func writeNewToken(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &FolderError{dir, err}
	}
	// In the same folder, so that the link stays on one file system.
	f, err := os.CreateTemp(dir, ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	text := rand.Text() + rand.Text() + "\n"
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link fails when the file exists.
	err = os.Link(f.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return writeExclusively(path, text) // a file system without hard links
	}
	return err
}

// writeExclusively writes a new file that only its owner can read. It fails with fs.ErrExist where there is one. Unlike
// a link it shows others an incomplete file for a moment.
func writeExclusively(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// OwnFiles returns the paths that hold the bot's secrets and records: no tool for files gives them out. Files that are
// named after one of them, such as the store's key, are meant too.
func (c *Config) OwnFiles() []string {
	list := []string{c.Path, filepath.Join(c.Dir, ".env"), c.TokenPath(), c.BackupFolder()}
	// The token and the key are named, so that hard links to them are found, too.
	list = append(list, c.StorePath(), c.StorePath()+".key")
	for _, s := range c.MCPServers {
		if s.EnvFile != "" {
			list = append(list, s.EnvFile)
		}
	}
	return list
}
