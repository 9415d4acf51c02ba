package mysql

import (
	"strings"

	collations "github.com/pingcap/tidb/pkg/parser/charset"
)

// charsetInfo is what the definitions of tables hang on: how wide characters are, and
// which collation a column has that names none.
type charsetInfo struct {
	wide    int
	mysql   string // its default collation
	mariadb string // where MariaDB's is another one
}

// charsets are those of MySQL and MariaDB. utf8 is utf8mb3.
var charsets = map[string]charsetInfo{
	"armscii8": {1, "armscii8_general_ci", ""}, "ascii": {1, "ascii_general_ci", ""}, "big5": {2, "big5_chinese_ci", ""}, "binary": {1, "binary", ""},
	"cp1250": {1, "cp1250_general_ci", ""}, "cp1251": {1, "cp1251_general_ci", ""}, "cp1256": {1, "cp1256_general_ci", ""}, "cp1257": {1, "cp1257_general_ci", ""},
	"cp850": {1, "cp850_general_ci", ""}, "cp852": {1, "cp852_general_ci", ""}, "cp866": {1, "cp866_general_ci", ""}, "cp932": {2, "cp932_japanese_ci", ""},
	"dec8": {1, "dec8_swedish_ci", ""}, "eucjpms": {3, "eucjpms_japanese_ci", ""}, "euckr": {2, "euckr_korean_ci", ""}, "gb18030": {4, "gb18030_chinese_ci", ""},
	"gb2312": {2, "gb2312_chinese_ci", ""}, "gbk": {2, "gbk_chinese_ci", ""}, "geostd8": {1, "geostd8_general_ci", ""}, "greek": {1, "greek_general_ci", ""},
	"hebrew": {1, "hebrew_general_ci", ""}, "hp8": {1, "hp8_english_ci", ""}, "keybcs2": {1, "keybcs2_general_ci", ""}, "koi8r": {1, "koi8r_general_ci", ""},
	"koi8u": {1, "koi8u_general_ci", ""}, "latin1": {1, "latin1_swedish_ci", ""}, "latin2": {1, "latin2_general_ci", ""}, "latin5": {1, "latin5_turkish_ci", ""},
	"latin7": {1, "latin7_general_ci", ""}, "macce": {1, "macce_general_ci", ""}, "macroman": {1, "macroman_general_ci", ""}, "sjis": {2, "sjis_japanese_ci", ""},
	"swe7": {1, "swe7_swedish_ci", ""}, "tis620": {1, "tis620_thai_ci", ""}, "ucs2": {2, "ucs2_general_ci", ""}, "ujis": {3, "ujis_japanese_ci", ""},
	"utf16": {4, "utf16_general_ci", ""}, "utf16le": {4, "utf16le_general_ci", ""}, "utf32": {4, "utf32_general_ci", ""},
	"utf8mb3": {3, "utf8mb3_general_ci", ""}, "utf8mb4": {4, "utf8mb4_0900_ai_ci", "utf8mb4_general_ci"},
}

func knownCharset(name string) bool {
	_, ok := charsets[charsetName(name)]
	return ok
}

// charsetName is the one name of a character set.
func charsetName(name string) string {
	switch name = strings.ToLower(name); name {
	case "utf8":
		return "utf8mb3"
	}
	return name
}

// collationName is the one name of a collation.
func collationName(name string) string {
	name = strings.ToLower(name)
	if rest, ok := strings.CutPrefix(name, "utf8_"); ok {
		return "utf8mb3_" + rest
	}
	return name
}

// charsetOfCollation is the character set that a collation belongs to; "" for MariaDB's
// collations of any set (uca1400_ai_ci).
func charsetOfCollation(collation string) string {
	name, _, _ := strings.Cut(collationName(collation), "_")
	if knownCharset(name) {
		return name
	}
	return ""
}

// defaultCollation is the collation of a column that names its character set alone.
func defaultCollation(set string, mariadb bool) string {
	info := charsets[charsetName(set)]
	if mariadb && info.mariadb != "" {
		return info.mariadb
	}
	return info.mysql
}

// binaryCollation is that of BINARY behind a text type.
func binaryCollation(set string) string {
	if set == "binary" {
		return set
	}
	return set + "_bin"
}

// resolveCharset puts together what was said of a character set and a collation, and what
// holds where nothing was.
func resolveCharset(set, collation, outerSet, outerCollation string, mariadb bool) (string, string) {
	set, collation = charsetName(set), collationName(collation)
	if set == "default" {
		set = ""
	}
	if collation == "default" {
		collation = ""
	}
	if collation != "" {
		own := charsetOfCollation(collation)
		switch {
		case own != "" && set == "":
			set = own
		case own == "": // of any set
			if set == "" {
				set = outerSet
			}
			collation = set + "_" + collation
		}
	}
	switch {
	case set == "":
		return outerSet, outerCollation
	case collation == "":
		collation = defaultCollation(set, mariadb)
	}
	return set, collation
}

// collationOfID is the collation with that number, as the log says it; "" for one that is not
// known.
func collationOfID(id uint16) (set, collation string) {
	if id == 0 {
		return "", ""
	}
	if c, err := collations.GetCollationByID(int(id)); err == nil {
		return charsetName(c.CharsetName), collationName(c.Name)
	}
	// MariaDB's collations of UCA 14 are numbered by character set, 256 to each.
	if set := map[uint16]string{8: "utf8mb3", 9: "utf8mb4", 10: "ucs2", 11: "utf16", 12: "utf32"}[id>>8]; set != "" {
		return set, defaultCollation(set, true)
	}
	return "", ""
}
