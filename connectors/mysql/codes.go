package mysql

// The types of columns as the binary log and the protocol number them (field_types.h).
const (
	codeTiny, codeShort, codeLong, codeFloat, codeDouble       = 1, 2, 3, 4, 5
	codeTimestamp, codeLongLong, codeInt24, codeDate, codeTime = 7, 8, 9, 10, 11
	codeDateTime, codeYear, codeVarChar, codeBit               = 12, 13, 15, 16
	codeTimestamp2, codeDateTime2, codeTime2                   = 17, 18, 19
	codeVector, codeJSON, codeNewDecimal, codeEnum, codeSet    = 242, 245, 246, 247, 248
	codeTinyBlob, codeMediumBlob, codeLongBlob, codeBlob       = 249, 250, 251, 252
	codeVarString, codeString, codeGeometry                    = 253, 254, 255
	codeBlobCompressed, codeVarCharCompressed                  = 140, 141 // MariaDB's
)

// metaSize is how many bytes a type has in the metadata of a table map.
func metaSize(code byte) int {
	switch code {
	case codeString, codeVarChar, codeVarString, codeBit, codeNewDecimal, codeEnum, codeSet, codeVarCharCompressed:
		return 2
	case codeBlob, codeFloat, codeDouble, codeGeometry, codeVector, codeJSON, codeTimestamp2, codeDateTime2, codeTime2,
		codeTinyBlob, codeMediumBlob, codeLongBlob, codeBlobCompressed:
		return 1
	}
	return 0
}
