package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// timeZoneRemedy is what mends the error of checkTimeZone.
const timeZoneRemedy = "set TZ to a name such as Europe/Berlin"

// checkTimeZone returns an error where the variable TZ names no time zone: Go then reads times as UTC without a word
// (package time, "Local"). Rules of other programs, such as CET-1CEST, are no names.
func (c *invocation) checkTimeZone() error {
	value, _ := c.Env("TZ")
	name := strings.TrimPrefix(value, ":")
	if name == "" { // not set, or UTC
		return nil
	}
	var err error
	if filepath.IsAbs(name) {
		var data []byte
		if data, err = os.ReadFile(name); err == nil {
			_, err = time.LoadLocationFromTZData(name, data)
		}
	} else {
		_, err = time.LoadLocation(name)
	}
	if err != nil {
		return fmt.Errorf("TZ=%s is not a known time zone, so UTC is used: %w", value, err)
	}
	return nil
}

// diagnoseTimeZone says in which time zone schedules without one of their own are.
func (c *invocation) diagnoseTimeZone() finding {
	if err := c.checkTimeZone(); err != nil {
		return finding{
			Name:  "time zone",
			Cause: err.Error(),
			Lost:  "digests and reminders without a time zone of their own come at other hours",
			Fix:   timeZoneRemedy,
		}
	}
	return finding{Name: "time zone " + time.Now().Format("MST"), OK: true}
}
