package kit_test

import (
	"testing"
	"time"

	"ravenbot/adapters/kit"
)

// internal/core/llm tests that these settings end a connection that is dead.
func TestNewTransport_LooksWhetherConnectionsLive(t *testing.T) {
	h := kit.NewTransport(1).HTTP2
	if h == nil || h.SendPingTimeout == 0 || h.PingTimeout == 0 || h.SendPingTimeout+h.PingTimeout > 20*time.Second {
		t.Errorf("the settings are %+v", h)
	}
}
