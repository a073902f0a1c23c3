package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// recordVersion is the first byte of every value; then come four bytes of CRC-32C over the name of its bucket, its key and
// the rest, and the record as JSON. The checksum of a value of version 1, of before format 5, is over the rest alone: such
// a value stays as it is until its record is written again.
const recordVersion = 2

const headerSize = 5

// castagnoli is the polynomial of CRC-32C, which processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of the parts of a record.
func checksum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return sum
}

// seal returns a record as it is stored in a bucket under a key, in new memory. Its body has some parts.
func seal(bucket string, key []byte, parts ...[]byte) []byte {
	return writeHeader(bucket, key, slices.Concat(append([][]byte{make([]byte, headerSize)}, parts...)...))
}

// writeHeader writes the header of a record, for which there is room before its body.
func writeHeader(bucket string, key, v []byte) []byte {
	v[0] = recordVersion
	binary.BigEndian.PutUint32(v[1:], checksum([]byte(bucket), key, v[headerSize:]))
	return v
}

var errChecksum = errors.New("its checksum is wrong")

// verify returns an error if a stored record cannot be trusted to be the one of a bucket and a key.
func verify(bucket string, key, v []byte) error {
	body, err := unseal(v)
	if err != nil {
		return err
	}
	sum := checksum([]byte(bucket), key, body)
	if v[0] == 1 {
		sum = checksum(body)
	}
	if binary.BigEndian.Uint32(v[1:headerSize]) != sum {
		return errChecksum
	}
	return nil
}

// wrongSum stands for a value whose checksum is wrong.
var wrongSum = []byte{0}

// unseal returns the body of a record that was verified, or an error if it was not right. The body shares the memory of v.
func unseal(v []byte) ([]byte, error) {
	switch {
	case bytes.Equal(v, wrongSum):
		return nil, errChecksum
	case len(v) < headerSize:
		return nil, errors.New("it is too short")
	case v[0] != recordVersion && v[0] != 1:
		return nil, fmt.Errorf("its format %d is not known to this version of ravenbot", v[0])
	}
	return v[headerSize:], nil
}

// encodeBehind appends the JSON of a record to what comes before it.
func encodeBehind(before []byte, record any) ([]byte, error) {
	body := bytes.NewBuffer(before)
	enc := json.NewEncoder(body)
	enc.SetEscapeHTML(false) // raw parts of a provider must come back byte by byte
	if err := enc.Encode(record); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// decode reads a record of a bucket, which has verified it, into a value. It returns a damage error that names the key.
func (db *DB) decode(key, v []byte, record any) error {
	body, err := unseal(v)
	if err == nil {
		err = json.Unmarshal(body, record)
	}
	if err != nil {
		return damagedError(db.path, fmt.Sprintf("record %q: %v", key, err), restoreRemedy)
	}
	return nil
}

// digest returns a hash of a key and its sealed value, which is nil for a nested bucket. Of the value it hashes only the
// checksum and the length: the checksum covers the rest, and the cost does not grow with the value.
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

// seqKey returns a key that sorts by number.
func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
