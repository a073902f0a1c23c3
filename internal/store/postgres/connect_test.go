package postgres

import (
	"testing"
	"time"
)

// What is not set has a default, and what the address of the database names counts.
func TestConnect_Defaults(t *testing.T) {
	for address, want := range map[string]struct {
		o        Options
		maxConns int32
		connect  time.Duration
	}{
		"postgres://db/raven": {Options{}, 16, 10 * time.Second},
		"postgres://db/raven?pool_max_conns=3&connect_timeout=1": {Options{}, 3, time.Second},
		"postgres://db/raven?pool_max_conns=4":                   {Options{MaxConns: 1}, 1, 10 * time.Second},
	} {
		db, err := connect(t.Context(), address, want.o)
		if err != nil {
			t.Fatal(err)
		}
		config := db.pool.Config()
		if config.MaxConns != want.maxConns || config.ConnConfig.ConnectTimeout != want.connect {
			t.Errorf("%s: %d connections, and %v to connect", address, config.MaxConns, config.ConnConfig.ConnectTimeout)
		}
		if db.machine == nil || db.log == nil || db.timeout <= 0 {
			t.Errorf("%s: clock %v, log %v, timeout %v", address, db.machine != nil, db.log, db.timeout)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Connections are renewed now and then, so that those to a server that is no longer the right one end, and not all of
// them at the same time.
func TestParseURL_ConnectionsLastForMinutes(t *testing.T) {
	config, err := parseURL("postgres://db/raven", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if config.PingTimeout < time.Second || config.PingTimeout > time.Minute {
		t.Errorf("whether a connection works is known after %v", config.PingTimeout)
	}
	for name, last := range map[string]time.Duration{
		"a connection":     config.MaxConnLifetime,
		"the spread of it": config.MaxConnLifetimeJitter,
		"one that is idle": config.MaxConnIdleTime,
	} {
		if last < time.Minute || last > time.Hour {
			t.Errorf("%s lasts for %v", name, last)
		}
	}
}
