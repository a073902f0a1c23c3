//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// chooseUser has the server run as another user where this process is root's: PostgreSQL refuses to run as
// root.
func (c *Cluster) chooseUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		c.user = name
		uid, gid := credential(u)
		return os.Chown(c.dir, int(uid), int(gid))
	}
	return fmt.Errorf("there is neither a user postgres nor nobody")
}

func credential(u *user.User) (uid, gid uint32) {
	n, _ := strconv.ParseUint(u.Uid, 10, 32) // numbers on Unix
	m, _ := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(n), uint32(m)
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	return c.commandContext(context.Background(), name, args...)
}

// commandContext returns a command that runs as the server's user, and in a process group of its own: an
// interrupt at the terminal is for the test.
func (c *Cluster) commandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if u, err := user.Lookup(c.user); err == nil && c.user != "" {
		uid, gid := credential(u)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return cmd
}

// giveToOwnerOf has a file belong to who owns a folder.
func giveToOwnerOf(path string, folder os.FileInfo) error {
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", folder.Name())
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
