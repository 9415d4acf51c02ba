package herder

import (
	"context"

	"millrace/runtime"
)

// Topics are the names of the topics that a connector has used since it was made or
// they were last forgotten, sorted. One that is not there has used none.
func (h *Herder) Topics(_ context.Context, name string) ([]string, error) {
	if !h.cfg.Worker.TopicTracking {
		return nil, &runtime.ForbiddenError{Msg: "Topic tracking is disabled."}
	}
	out := []string{}
	for _, u := range h.statuses.Topics(name) {
		out = append(out, u.Topic)
	}
	return out, nil
}

// ForgetTopics forgets the topics that a connector used; what it uses from then on is
// told anew.
func (h *Herder) ForgetTopics(ctx context.Context, name string) error {
	switch {
	case !h.cfg.Worker.TopicTracking:
		return &runtime.ForbiddenError{Msg: "Topic tracking is disabled."}
	case !h.cfg.Worker.TrackingReset:
		return &runtime.ForbiddenError{Msg: "Topic tracking reset is disabled."}
	}
	h.statuses.ForgetTopics(name)
	return h.statuses.Flush(ctx)
}
