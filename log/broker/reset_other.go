//go:build !unix

package broker

func isReset(error) bool { return false }
