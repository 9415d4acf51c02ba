package runtime

// SinkGroup is the consumer group of a sink connector: connect-NAME, or what its
// configuration says.
func (c WorkerConfig) SinkGroup(name string, connector map[string]string) string {
	if over, _ := c.ClientOverrides(Consumer, connector); over.Group != "" {
		return over.Group
	}
	return "connect-" + name
}
