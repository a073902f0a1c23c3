package chat

import (
	"fmt"
	"net/mail"
	"strings"
)

// MailPlatform is the platform of mailboxes, and mailWorkspace the workspace of all of them.
const (
	MailPlatform  = "email"
	mailWorkspace = "smtp"
)

// Mailbox returns the place for a mailbox, such as anna@example.org. It returns an error unless the text is exactly
// one address: a name, a list or a line end could become another header.
func Mailbox(address string) (Address, error) {
	a, err := mail.ParseAddress(address)
	if err != nil || a.Address != address || strings.ContainsAny(address, "/ \r\n\t\"") {
		return Address{}, fmt.Errorf("%.100q is not the address of a mailbox: want it like anna@example.org", address)
	}
	return Address{Platform: MailPlatform, Workspace: mailWorkspace, Channel: address}, nil
}
