package digest

import (
	"encoding/json"
	"errors"
	"fmt"
)

// refuseFilter refuses the filter of a member, which exports of earlier versions have.
func refuseFilter(string, json.RawMessage) error {
	return errors.New("members have no filters of their own any more; use a digest's kinds and prompt")
}

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
