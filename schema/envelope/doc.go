// Package envelope is the Debezium change event: the names, the schemas and the
// shape that database sources write and that transforms take apart.
//
// A source makes one [Layout] per version of a table and fills it row by row with
// [Layout.Event]; a transform reads events, with a schema or without, through a
// [Reader]. Both work by position: what a name means is looked up once per schema.
package envelope
