//go:build !linux

package cli

// closeProcess does nothing: only Linux shows the memory and environment of a process under /proc.
func closeProcess() error { return nil }

// diagnoseProcess says that secrets in this process are not kept from other programs. That is no fault of the set-up.
func diagnoseProcess() finding {
	return finding{
		Name:  "secrets in memory and environment",
		OK:    true,
		Notes: []string{"on this system the bot does not close its memory to other programs of its user"},
	}
}
