package digest

import (
	"encoding/json"
	"fmt"
)

// CheckUnsubscribed returns why a stored unsubscription could not be used, or nil. One under another name would be found
// for no mailbox, which would get mails again.
func CheckUnsubscribed(id string, raw json.RawMessage) error {
	var u unsubscription
	if err := json.Unmarshal(raw, &u); err != nil {
		return err
	}
	if want := mailingID(u.Digest, u.Mailbox); want != id {
		return fmt.Errorf("the name of %.80q for the digest %.80q is %q, and the line has %.80q", u.Mailbox, u.Digest, want, id)
	}
	return nil
}

// CheckPause returns why a stored pause could not be used, or nil. The pause of a digest is not for another one that has
// its name: of one made in chat or through the API, and one of the configuration.
func (s *Service) CheckPause(name string, raw json.RawMessage) error {
	var p pause
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	switch isConfigured := s.IsConfigured(name); {
	case isConfigured && p.Source != FromConfig:
		return fmt.Errorf("config.json has a digest called %q, and this is the pause of another one", name)
	case !isConfigured && p.Source == FromConfig:
		return fmt.Errorf("config.json has no digest called %q, whose pause this is", name)
	}
	return nil
}
