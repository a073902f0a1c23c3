package cli

import (
	"context"
	"fmt"
)

// checkHealth asks the running daemon whether it is ready, as the HEALTHCHECK of the image does. A platform that fails
// after all of them have been connected does not count. The error names what is not ready.
func checkHealth(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err == nil {
		err = d.checkReady(ctx, "?platforms=once")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, "ready")
	return err
}
