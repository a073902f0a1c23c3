package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// recordVersion is the first byte of every value; then come four bytes of CRC-32C
// over the rest, and the record as JSON.
const recordVersion = 1

const headerSize = 5

// checksum returns the CRC-32C of some bytes, which processors compute in hardware.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// seal returns a record as it is stored, in new memory, whose body has some parts.
func seal(parts ...[]byte) []byte {
	size := headerSize
	for _, p := range parts {
		size += len(p)
	}
	v := make([]byte, headerSize, size)
	for _, p := range parts {
		v = append(v, p...)
	}
	return writeHeader(v)
}

// writeHeader writes the header of a record, for which there is room before its body.
func writeHeader(v []byte) []byte {
	v[0] = recordVersion
	binary.BigEndian.PutUint32(v[1:], checksum(v[headerSize:]))
	return v
}

// unseal returns the body of a sealed record, or why it cannot be trusted. The body shares the
// memory of v.
func unseal(v []byte) ([]byte, error) {
	switch {
	case len(v) < headerSize:
		return nil, errors.New("it is too short")
	case v[0] != recordVersion:
		return nil, fmt.Errorf("its format %d is not known to this version of ravenbot", v[0])
	case binary.BigEndian.Uint32(v[1:headerSize]) != checksum(v[headerSize:]):
		return nil, errors.New("its checksum is wrong")
	}
	return v[headerSize:], nil
}

// encode returns a record as it is stored: as JSON with a version and a checksum.
func encode(record any) ([]byte, error) {
	v, err := encodeBehind(make([]byte, headerSize), record)
	if err != nil {
		return nil, err
	}
	return writeHeader(v), nil
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

// decode reads a stored record into a value. It returns a damage error that names the key.
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

// seqKey returns a key that sorts by number.
func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// timeKey returns a key that sorts by time. Its length is always the same, so that something can
// follow.
func timeKey(t time.Time) []byte { return []byte(t.UTC().Format("2006-01-02T15:04:05.000000000Z")) }
