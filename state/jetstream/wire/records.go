package wire

import (
	"encoding/binary"
	"errors"

	"paramedic/state"
)

// RecordRoom bounds the bytes of a record in a list beside its key and value.
const RecordRoom = 2 * binary.MaxVarintLen32

// AppendRecords appends for each record the length of its key, the key, the length of the value and
// one, and the value; 0 instead for a deleted record.
func AppendRecords(data []byte, records []state.Record) []byte {
	for _, r := range records {
		data = append(binary.AppendUvarint(data, uint64(len(r.Key))), r.Key...)
		if r.Value == nil {
			data = append(data, 0)
			continue
		}
		data = append(binary.AppendUvarint(data, uint64(len(r.Value))+1), r.Value...)
	}
	return data
}

// DecodeRecords reverses AppendRecords. The values are parts of the data, which must not change. It
// makes room for the expected number of records, each of at least two bytes.
func DecodeRecords(data []byte, expected int) ([]state.Record, error) {
	records := make([]state.Record, 0, max(0, min(expected, len(data)/2)))
	for len(data) > 0 {
		key, left, ok := cutBytes(data, 0)
		if !ok {
			return nil, errShort
		}
		r := state.Record{Key: string(key)}
		if len(left) > 0 && left[0] == 0 {
			data = left[1:]
		} else if r.Value, data, ok = cutBytes(left, 1); !ok {
			return nil, errShort
		}
		records = append(records, r)
	}
	return records, nil
}

var errShort = errors.New("its records end in the middle")

// cutBytes returns the bytes behind their length, which is stored with an addition.
func cutBytes(data []byte, added uint64) (value, rest []byte, ok bool) {
	n, size := binary.Uvarint(data)
	if size <= 0 || n < added || n-added > uint64(len(data)-size) {
		return nil, nil, false
	}
	end := size + int(n-added) //nolint:gosec // at most len(data)
	return data[size:end:end], data[end:], true
}

// AppendArray appends the values as a JSON array.
func AppendArray(data []byte, values [][]byte) []byte {
	data = append(data, '[')
	for i, v := range values {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, v...)
	}
	return append(data, ']')
}
