package discord

import "time"

// SetOpenWithin spares tests the wait for a gateway that says nothing.
func SetOpenWithin(d *Discord, t time.Duration) { d.openWithin = t }
