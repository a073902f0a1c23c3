package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// batch is statements that are sent in one round trip. It is like a pgx.Batch, which sends and receives bytes as text
// of twice their length (v5.12.0, 2026-11).
type batch struct{ queries []*query }

// query is a statement of a batch. read reads its rows, if it is not nil, and done gets its outcome.
type query struct {
	sql      string
	args     []any
	isBinary bool // the server sends the columns in their binary formats
	read     func(*pgtype.Map, *pgconn.ResultReader) error
	done     func(pgconn.CommandTag) error
}

// Queue adds a statement.
func (b *batch) Queue(sql string, args ...any) *query {
	q := &query{sql: sql, args: args}
	b.queries = append(b.queries, q)
	return q
}

// Exec sets what is called when the statement has succeeded.
func (q *query) Exec(done func(pgconn.CommandTag) error) { q.done = done }

// Query sets what reads the rows.
func (q *query) Query(read func(pgx.Rows) error) {
	q.read = func(types *pgtype.Map, r *pgconn.ResultReader) error {
		rows := pgx.RowsFromResultReader(types, r)
		defer rows.Close()
		return cmp.Or(read(rows), rows.Err())
	}
}

// QueryRow sets what reads the first row. Its Scan returns pgx.ErrNoRows if there is none, or the error of the
// statement.
func (q *query) QueryRow(read func(pgx.Row) error) {
	q.Query(func(rows pgx.Rows) error {
		if rows.Next() {
			return read(rows)
		}
		return read(failedRow{cmp.Or(rows.Err(), pgx.ErrNoRows)})
	})
}

// failedRow is a row that could not be read.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// each sets what is called with the columns of each row, in their binary formats. They are valid during the call.
func (q *query) each(visit func(columns [][]byte) error) {
	q.isBinary = true
	q.read = func(_ *pgtype.Map, r *pgconn.ResultReader) error {
		for r.NextRow() {
			if err := visit(r.Values()); err != nil {
				return err
			}
		}
		return nil
	}
}

// eachNumber is each for rows with one bigint.
func (q *query) eachNumber(visit func(n uint64)) {
	q.each(func(columns [][]byte) error {
		visit(binary.BigEndian.Uint64(columns[0]))
		return nil
	})
}

// send sends the batch over a connection and reads the results. The error is the first one of reading a result or of
// the server, which carries out no further statement then.
func (b *batch) send(ctx context.Context, conn *pgxpool.Conn) error {
	types := conn.Conn().TypeMap()
	wire := &pgconn.Batch{}
	for _, q := range b.queries {
		if err := q.addTo(wire, types); err != nil {
			return err
		}
	}
	results := conn.Conn().PgConn().ExecBatch(ctx, wire)
	var failed error
	for i := 0; results.NextResult() && i < len(b.queries); i++ {
		failed = cmp.Or(failed, b.queries[i].readResult(types, results.ResultReader()))
	}
	err := results.Close()
	return cmp.Or(failed, err)
}

// readResult reads the result of the statement to its end. An error of the server is left to the caller unless read
// returns another one for it.
func (q *query) readResult(types *pgtype.Map, r *pgconn.ResultReader) error {
	var failed error
	if q.read != nil {
		failed = q.read(types, r)
	}
	tag, err := r.Close()
	if failed == nil && err == nil && q.done != nil {
		failed = q.done(tag)
	}
	return failed
}

// addTo adds the statement to a batch of the driver.
func (q *query) addTo(wire *pgconn.Batch, types *pgtype.Map) error {
	values, oids, formats := make([][]byte, len(q.args)), make([]uint32, len(q.args)), make([]int16, len(q.args))
	for i, arg := range q.args {
		var err error
		switch arg := arg.(type) {
		case []byte:
			values[i], oids[i], formats[i] = arg, pgtype.ByteaOID, pgx.BinaryFormatCode
		case [][]byte:
			oids[i], formats[i] = pgtype.ByteaArrayOID, pgx.BinaryFormatCode
			values[i], err = types.Encode(pgtype.ByteaArrayOID, pgx.BinaryFormatCode, arg, []byte{})
		case []int64:
			oids[i], formats[i] = pgtype.Int8ArrayOID, pgx.BinaryFormatCode
			values[i], err = types.Encode(pgtype.Int8ArrayOID, pgx.BinaryFormatCode, arg, []byte{})
		default: // as in pgx.QueryExecModeExec: the server finds out the type
			values[i], err = types.Encode(0, pgx.TextFormatCode, arg, []byte{})
		}
		if err != nil {
			return fmt.Errorf("encode parameter %d: %w", i+1, err)
		}
	}
	var results []int16 // text
	if q.isBinary {
		results = []int16{pgx.BinaryFormatCode}
	}
	wire.ExecParams(q.sql, values, oids, formats, results)
	return nil
}
