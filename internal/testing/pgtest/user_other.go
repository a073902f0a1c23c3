//go:build !unix

package pgtest

import (
	"context"
	"os"
	"os/exec"
)

func (c *Cluster) chooseUser() error { return errMissing }

func (c *Cluster) command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

func (c *Cluster) commandContext(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

func giveToOwnerOf(string, os.FileInfo) error { return errMissing }
