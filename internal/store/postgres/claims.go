package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

const (
	// The owner's name is null where its row is gone, which Take leaves to nobody.
	readClaim = `select c.owner, r.name, r.address from ravenbot.claims c
		left join ravenbot.replicas r on r.id = c.owner where c.key = $1`
	addClaim = `insert into ravenbot.claims (key, owner) values ($1, $2) on conflict (key) do nothing`
	// Ids are not used again: the owner that was read is gone for good.
	moveClaim     = `update ravenbot.claims set owner = $3 where key = $1 and owner = $2`
	releaseClaims = `delete from ravenbot.claims where key = any($1::text[]) and owner = $2`
)

// Claim returns the replica that owns a key, and makes it this one where nobody does: nobody has claimed it, or the
// owner's membership was ended. It writes only then.
func (m *Membership) Claim(ctx context.Context, key string) (owner store.Replica, err error) {
	form := keyText(key)
	var isOwned bool
	err = m.db.read(ctx, func(ctx context.Context) error {
		owner, isOwned, err = scanClaim(m.db.pool.QueryRow(ctx, readClaim, form))
		return err
	})
	if err == nil && !isOwned {
		err = m.db.write(ctx, func(t *tx) (err error) {
			owner, err = t.claim(form, m.db.owner())
			return err
		})
	}
	if err != nil {
		return store.Replica{}, fmt.Errorf("claim %s: %w", key, err)
	}
	return owner, nil
}

// claim makes a key that of a member where nobody owns it, and returns who does.
func (t *tx) claim(key string, owner int64) (r store.Replica, err error) {
	var isOwned bool
	read := func(b *batch) {
		b.Queue(readClaim, key).QueryRow(func(row pgx.Row) error {
			r, isOwned, err = scanClaim(row)
			return err
		})
	}
	err = t.send(func(b *batch) {
		b.Queue(addClaim, key, owner)
		read(b)
	})
	if err != nil || isOwned {
		return r, err
	}
	// The owner that was read has ended. Where another process has taken the key from it since, nothing is moved, and the
	// second look finds that process.
	err = t.send(func(b *batch) {
		b.Queue(moveClaim, key, r.ID, owner)
		read(b)
	})
	if err == nil && !isOwned {
		err = &conflictError{errors.New("the key has been released")}
	}
	return r, err
}

// scanClaim returns the owner of a key. It returns false where there is none; its ID is set where one was.
func scanClaim(row pgx.Row) (r store.Replica, isOwned bool, err error) {
	var name, address *string
	err = row.Scan(&r.ID, &name, &address)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r, false, nil
	case err != nil || name == nil:
		return r, false, err
	}
	r.Name, r.Address = *name, *address
	return r, true, nil
}

// Release returns keys of this process to nobody.
func (m *Membership) Release(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	err := m.db.write(ctx, func(t *tx) error {
		n, err := t.exec(releaseClaims, keyTexts(keys), m.db.owner())
		if n == 0 {
			return orUnchanged(err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("release claims: %w", err)
	}
	return nil
}
