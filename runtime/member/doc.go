// Package member takes part in a group of the log's group coordinator, as the workers and the registry's instances do: it joins, hands what
// the members report to the leader, heartbeats and leaves. What is reported and assigned are bytes of its owner's.
package member
