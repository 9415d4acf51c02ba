package broker

import "millrace/log/internal/wire"

// register fills the table of handlers. What has no line here is neither announced nor served; the
// versions stand in wire's table. A handler runs on the reader of its connection and ends its call
// at once or later (see call).
func (s *Server) register() {
	for key, h := range map[int16]handler{
		wire.ApiVersions: inline(s.apiVersions),
	} {
		s.handlers[key] = h
	}
}
