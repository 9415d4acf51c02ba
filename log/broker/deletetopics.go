package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// DeleteTopics, key 20, versions 1 to 6. 4 brought flexible encoding, 5 messages, 6 topic ids.

func (s *Server) deleteTopics(_ *call, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	for _, name := range req.TopicNames {
		r := kmsg.NewDeleteTopicsResponseTopic()
		r.Topic = &name
		if t := s.cat.Topic(name); t != nil {
			r.TopicID = t.ID
		}
		r.ErrorCode, r.ErrorMessage = refusal(s.deleteTopic(name))
		resp.Topics = append(resp.Topics, r)
	}
	for _, q := range req.Topics {
		r := kmsg.NewDeleteTopicsResponseTopic()
		r.Topic, r.TopicID = q.Topic, q.TopicID
		var err error
		switch byID := q.TopicID != [16]byte{}; {
		case byID && q.Topic != nil:
			err = &catalog.Error{Code: kerr.InvalidRequest, Reason: "You may not specify both topic name and topic id."}
		case byID:
			t := s.cat.TopicByID(q.TopicID)
			if t == nil {
				err = kerr.UnknownTopicID
				break
			}
			r.Topic = &t.Name
			err = s.deleteTopic(t.Name)
		case q.Topic != nil:
			if t := s.cat.Topic(*q.Topic); t != nil {
				r.TopicID = t.ID
			}
			err = s.deleteTopic(*q.Topic)
		default:
			err = &catalog.Error{Code: kerr.InvalidRequest, Reason: "Neither topic name nor id were specified."}
		}
		r.ErrorCode, r.ErrorMessage = refusal(err)
		resp.Topics = append(resp.Topics, r)
	}
	return resp
}

// deleteTopic removes a topic. The broker's own cannot go: its coordinators keep their state there.
func (s *Server) deleteTopic(name string) error {
	if catalog.IsInternal(name) {
		return &catalog.Error{Code: kerr.InvalidTopicException, Reason: "topic " + name + " is used by the log itself"}
	}
	if err := s.cat.Delete(name); err != nil {
		return err
	}
	if s.opt.Groups != nil {
		s.opt.Groups.TopicDeleted(name)
	}
	return nil
}
