package egress

import (
	"strings"
	"testing"
	"time"
)

func TestGet_ErrorsHoldNoSecretsOfAddresses(t *testing.T) {
	c, err := New(Options{AllowPrivateHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"http://user:hidden@127.0.0.1:9/feed?token=hidden&page=2",
		"http://127.0.0.1:9/feed?page=2&api_key=hidden",
		"http://127.0.0.1:9/%zz?token=hidden",
		"http://user:hid den@exa mple/?sig=hidden",
		"gopher://127.0.0.1/?password=hidden",
	} {
		_, err := c.Get(t.Context(), address, GetOptions{Timeout: time.Second})
		if err == nil || strings.Contains(err.Error(), "hid") || !strings.Contains(err.Error(), "***") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
