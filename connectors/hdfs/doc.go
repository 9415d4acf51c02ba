// Package hdfs is the sink connector for HDFS, under the names of Confluent's HDFS 2 and HDFS 3 sinks.
//
// Files come from package warehouse. A file is written under a temporary name and renamed, and its final name says from which offset
// to which it goes. The files of a commit are moved to where commits lie, all at once, before the first of them is renamed; whoever has the
// partition next carries on from there. So each record of the topic stands in exactly one visible file, whatever dies when, and
// wherever files end. Where a task goes on is told there and by the names of files, and not by the group's offsets.
//
// DESIGN.md says how, and why so.
package hdfs
