package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// Spoil changes the last byte of every record, as a disk may, and nothing else.
func Spoil(db *DB) error {
	return db.bolt.Load().Update(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			if string(name) == formatBucket || string(name) == talliesBucket {
				return nil
			}
			return spoilBucket(b)
		})
	})
}

func spoilBucket(b *bbolt.Bucket) error {
	spoiled := map[string][]byte{}
	if err := b.ForEach(func(k, v []byte) error {
		if v == nil {
			return spoilBucket(b.Bucket(k))
		}
		record := bytes.Clone(v)
		record[len(record)-1] ^= 1
		spoiled[string(k)] = record
		return nil
	}); err != nil {
		return err
	}
	for k, v := range spoiled {
		if err := b.Put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}
