package rest

import "net/http"

// topicsBody is what GET topics says of the connector.
type topicsBody struct {
	Topics []string `json:"topics"`
}

func (s *Server) topics(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	topics, err := s.herder.Topics(r.Context(), name)
	return map[string]topicsBody{name: {topics}}, err
}

func (s *Server) resetTopics(r *http.Request) (any, error) {
	return s.act(r, http.StatusAccepted, func(name string) error { return s.herder.ForgetTopics(r.Context(), name) })
}
