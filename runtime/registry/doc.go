// Package registry runs an instance of the schema registry: its topic, read to its end and followed, and the group in which instances
// agree on the one that writes. Reads are served by every instance, whether anybody writes or not. The rules are schema/registry's; HTTP is
// rest/registry's.
//
// Whoever writes does so in transactions under an id that all instances share: one that was taken for dead and comes back is fenced, and
// nothing of what it tries to write is ever read. Decisions are made one batch after the other, each on what all before it have
// made of the topic.
package registry
