package mysql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// decodeStatement makes UTF-8 of a statement, which the log has in its client's character
// set. In some of them a byte of a character may be that of a backslash or a quote, so
// this comes before all reading.
func decodeStatement(sql string, client uint16) (string, error) {
	if ascii([]byte(sql)) {
		return sql, nil
	}
	set, _ := collationOfID(client)
	switch set {
	case "", "utf8mb4", "utf8mb3", "binary", "ascii":
		if !utf8.ValidString(sql) {
			return strings.ToValidUTF8(sql, "\uFFFD"), nil
		}
		return sql, nil
	}
	enc := clientEncodings[set]
	if enc == nil {
		return "", fmt.Errorf("its client spoke the character set %s, in which names and texts that are not ASCII cannot be read", set)
	}
	return enc.NewDecoder().String(sql)
}

var clientEncodings = map[string]encoding.Encoding{
	"latin1": charmap.Windows1252, "latin2": charmap.ISO8859_2, "latin5": charmap.ISO8859_9, "latin7": charmap.ISO8859_13, "cp1250": charmap.Windows1250, "cp1251": charmap.Windows1251,
	"cp1256": charmap.Windows1256, "cp1257": charmap.Windows1257, "cp850": charmap.CodePage850, "cp852": charmap.CodePage852, "cp866": charmap.CodePage866,
	"greek": charmap.ISO8859_7, "hebrew": charmap.ISO8859_8, "koi8r": charmap.KOI8R, "koi8u": charmap.KOI8U, "macroman": charmap.Macintosh, "tis620": charmap.Windows874,
	"gbk": simplifiedchinese.GBK, "gb2312": simplifiedchinese.GBK, "gb18030": simplifiedchinese.GB18030, "big5": traditionalchinese.Big5,
	"sjis": japanese.ShiftJIS, "cp932": japanese.ShiftJIS, "ujis": japanese.EUCJP, "eucjpms": japanese.EUCJP, "euckr": korean.EUCKR,
}
