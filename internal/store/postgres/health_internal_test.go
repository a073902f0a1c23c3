package postgres

import (
	"strings"
	"testing"
	"time"
)

// A member whose renewals do not succeed takes no messages, whether or not the database answers.
func TestHealth_TimeOfTheMemberIsOver_IsSaid(t *testing.T) {
	db := &DB{members: &Membership{id: 1, renewed: time.Now()}}
	if err := db.Health(); err != nil {
		t.Errorf("just renewed: %v", err)
	}
	db.members.renewed = time.Now().Add(-2 * ownedFor)
	if err := db.Health(); err == nil || !strings.Contains(db.Problem(), "has not confirmed for") {
		t.Errorf("%v, in short %q", err, db.Problem())
	}
}
