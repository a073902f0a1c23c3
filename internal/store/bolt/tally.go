package bolt

import (
	"encoding/binary"
	"errors"
)

// tally describes the content of a bucket and is stored apart from it. It shows that a
// record vanished, came back or is outdated, where every value has the right checksum.
type tally struct {
	count uint64 // records, buckets in it included
	sum   uint64 // of the digests of all, modulo 2^64: their order does not matter
	seq   uint64 // the bucket's sequence
}

// add adds a record by its digest.
func (t *tally) add(digest uint64) { t.count, t.sum = t.count+1, t.sum+digest }

// remove subtracts a record. A difference below zero wraps, and wraps back when it is added
// to the stored tally.
func (t *tally) remove(digest uint64) { t.count, t.sum = t.count-1, t.sum-digest }

const tallySize = 24

// seal returns the tally in its stored form: three numbers of 8 bytes, big-endian, behind a
// record's header.
func (t tally) seal() []byte {
	body := binary.BigEndian.AppendUint64(make([]byte, 0, tallySize), t.count)
	body = binary.BigEndian.AppendUint64(body, t.sum)
	return seal(binary.BigEndian.AppendUint64(body, t.seq))
}

// unsealTally returns a stored tally, or why it cannot be trusted.
func unsealTally(v []byte) (tally, error) {
	body, err := unseal(v)
	if err == nil && len(body) != tallySize {
		err = errors.New("it has the wrong size")
	}
	if err != nil {
		return tally{}, err
	}
	return tally{
		count: binary.BigEndian.Uint64(body),
		sum:   binary.BigEndian.Uint64(body[8:]),
		seq:   binary.BigEndian.Uint64(body[16:]),
	}, nil
}

// digest returns a hash of a key and its sealed value, which is nil for a nested bucket.
// Of the value only its checksum and length are hashed: the checksum covers the rest, and
// the cost does not grow with the value.
func digest(key, value []byte) uint64 {
	var h, sum uint64 = 0xcbf29ce484222325, 0 // FNV-1a
	for _, c := range key {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	if len(value) >= headerSize {
		sum = uint64(binary.BigEndian.Uint32(value[1:headerSize]))
	}
	return mix(mix(h) ^ (sum<<32 | uint64(uint32(len(value)))))
}

// mix spreads every bit over the whole number (the finalizer of SplitMix64, by Steele, Lea
// and Flood), so that the digests of similar records are unrelated and their sum is, too.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
