package bolt

import (
	"encoding/binary"
	"errors"
)

// tally is what is kept of a bucket beside its records, so that a record which
// vanished, came back or is of an older day is noticed although every value that is
// left has the right checksum.
type tally struct {
	count uint64 // records, buckets in it included
	sum   uint64 // of the digests of all, modulo 2^64: their order does not matter
	seq   uint64 // the bucket's sequence
}

func (t *tally) add(digest uint64) { t.count, t.sum = t.count+1, t.sum+digest }

// remove takes a record away; below zero the numbers wrap, and wrap back when two
// tallies are added.
func (t *tally) remove(digest uint64) { t.count, t.sum = t.count-1, t.sum-digest }

const tallySize = 24

func (t tally) seal() []byte {
	body := binary.BigEndian.AppendUint64(make([]byte, 0, tallySize), t.count)
	body = binary.BigEndian.AppendUint64(body, t.sum)
	return seal(binary.BigEndian.AppendUint64(body, t.seq))
}

func unsealTally(v []byte) (tally, error) {
	body, err := unseal(v)
	if err == nil && len(body) != tallySize {
		err = errors.New("it has the wrong size")
	}
	if err != nil {
		return tally{}, err
	}
	return tally{binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]), binary.BigEndian.Uint64(body[16:])}, nil
}

// digest is a hash over a key and its sealed value, which is nil where the key
// names a bucket. The value enters by its checksum and length: what checks the one
// checks the other, and the cost does not grow with the value.
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

// mix spreads every bit over the whole number (the finalizer of SplitMix64, by
// Steele, Lea and Flood), so that the digests of similar records share nothing.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
