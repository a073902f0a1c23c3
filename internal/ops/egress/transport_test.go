package egress

import (
	"testing"
	"time"
)

// internal/core/llm tests that such settings end a connection that is dead. Feeds and pages have 15 seconds.
func TestNew_LooksWhetherConnectionsLive(t *testing.T) {
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := c.transport.HTTP2
	if h == nil || h.SendPingTimeout == 0 || h.PingTimeout == 0 || h.SendPingTimeout+h.PingTimeout >= 15*time.Second {
		t.Errorf("the settings are %+v", h)
	}
}
