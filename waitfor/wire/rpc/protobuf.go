package rpc

import "encoding/binary"

// The gRPC messages here have only a few fields: they need no library and no generated code.
//
// https://protobuf.dev/programming-guides/encoding/

// AppendText appends a field that is a string or a message. It leaves out an empty one, as proto3 does.
func AppendText(message []byte, field uint64, value string) []byte {
	if value == "" {
		return message
	}
	message = binary.AppendUvarint(message, field<<3|2)
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}

// AppendNumber appends a field that is a number.
func AppendNumber(message []byte, field, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(message, field<<3), value)
}

// Fields calls see for each field of a message: with the number of a varint, or the bytes of a string or a message. It
// skips other types, and reports whether the message is well formed.
func Fields(message []byte, see func(field, number uint64, text []byte)) bool {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 || tag>>3 == 0 {
			return false
		}
		message = message[n:]
		skip := uint64(0)
		switch tag & 7 {
		case 0: // a varint
			v, n := binary.Uvarint(message)
			if n <= 0 {
				return false
			}
			see(tag>>3, v, nil)
			skip = uint64(n)
		case 1:
			skip = 8
		case 2: // a length, then that many bytes
			length, n := binary.Uvarint(message)
			if n <= 0 || length > uint64(len(message)-n) {
				return false
			}
			skip = uint64(n) + length
			see(tag>>3, 0, message[n:skip])
		case 5:
			skip = 4
		default:
			return false
		}
		if skip > uint64(len(message)) {
			return false
		}
		message = message[skip:]
	}
	return true
}
