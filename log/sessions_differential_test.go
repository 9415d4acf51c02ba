package log_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/peers"
)

var sessionIDs = regexp.MustCompile(`"SessionID":([1-9]\d*)`)

// sessionScript talks to a broker in fetch sessions of one version and returns what was said.
func sessionScript(t *testing.T, addr string, version int16) []string {
	s := newScript(t, addr)
	s.create("create t", false, 7, newTopic("t", 3, 1))
	s.create("create u", false, 7, newTopic("u", 1, 1))
	s.serves("t", 3)
	s.serves("u", 1)
	if version >= 13 {
		s.topics["none"] = [16]byte{1, 2, 3}
	}
	ids := map[string]string{}
	// at is a position, of a partition of a topic.
	type at struct {
		topic     string
		partition int32
		offset    int64
	}
	parts := func(t string, as []at) (ps []kmsg.FetchRequestTopicPartition) {
		for _, a := range as {
			if a.topic == t {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.FetchOffset, p.PartitionMaxBytes = a.partition, a.offset, 1<<20
				ps = append(ps, p)
			}
		}
		return ps
	}
	fetch := func(what string, id, epoch int32, asks []at, forget ...at) *kmsg.FetchResponse {
		t.Helper()
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 0, 1, 1<<20
		req.SessionID, req.SessionEpoch = id, epoch
		for _, name := range []string{"t", "u", "none"} {
			if ps := parts(name, asks); ps != nil {
				req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: name + s.run, TopicID: s.topics[name], Partitions: ps})
			}
			for _, a := range forget {
				if a.topic == name {
					req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: name + s.run, TopicID: s.topics[name], Partitions: []int32{a.partition}})
				}
			}
		}
		resp := s.say(what, version, req).(*kmsg.FetchResponse)
		last := &s.said[len(s.said)-1]
		*last = batches.ReplaceAllString(*last, `"RecordBatches":"some"`)
		*last = sessionIDs.ReplaceAllStringFunc(*last, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf(`"SessionID":session %d`, len(ids)+1)
			}
			return ids[id]
		})
		return resp
	}
	put := func(topic string, partition int32) {
		s.produce("a record", 9, topic, partition, -1, plain("v"))
	}
	put("t", 1)
	id := fetch("a full request", 0, 0, []at{{"t", 0, 0}, {"t", 1, 0}, {"t", 2, 0}}).SessionID
	fetch("the position stays", id, 1, nil)
	fetch("the position moves", id, 2, []at{{"t", 1, 1}})
	put("t", 2)
	fetch("a record in 2", id, 3, nil)
	put("t", 0)
	fetch("records in 0 and 2, whose turn was last", id, 4, nil)
	fetch("an epoch that was used", id, 4, nil)
	fetch("an epoch that is ahead", id, 9, nil)
	fetch("a negative epoch", id, -7, nil)
	fetch("another topic", id, 5, []at{{"t", 0, 1}, {"t", 2, 1}, {"u", 0, 0}})
	fetch("a topic that there is not", id, 6, []at{{"none", 0, 0}})
	fetch("is told again", id, 7, nil)
	fetch("until it is forgotten", id, 8, nil, at{"none", 0, 0})
	fetch("an offset that there is not", id, 9, []at{{"t", 1, 77}})
	fetch("is told again, too", id, 10, nil)
	fetch("until it is one", id, 11, []at{{"t", 1, 1}})
	fetch("a partition that there is not", id, 12, []at{{"t", 9, 0}})
	fetch("named and forgotten at once", id, 13, []at{{"t", 9, 0}}, at{"t", 9, 0})
	fetch("what was never named is forgotten", id, 14, nil, at{"t", 8, 0})
	fetch("all is forgotten", id, 15, nil, at{"t", 0, 0}, at{"t", 1, 0}, at{"t", 2, 0}, at{"u", 0, 0})
	fetch("nothing is left of the session", id, 16, nil)
	id = fetch("a second one", 0, 0, []at{{"t", 0, 0}}).SessionID
	third := fetch("ends with the next one", id, 0, []at{{"t", 0, 1}}).SessionID
	fetch("and is not found", id, 1, nil)
	fetch("the third one goes on", third, 1, nil)
	fetch("and ends", third, -1, nil)
	fetch("and is not found either", third, 2, nil)
	fetch("a full request without a session", 0, -1, []at{{"t", 0, 1}})
	fetch("no session with an epoch", 0, 5, []at{{"t", 0, 1}})
	fetch("a full request for nothing", 0, 0, nil)
	return s.said
}

// serves waits until the broker knows that it leads a new topic's partitions.
func (s *script) serves(topic string, partitions int32) {
	s.t.Helper()
	for p := range partitions {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.SessionEpoch = -1, -1
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes = p, 1<<20
		req.Topics = append(req.Topics, kmsg.FetchRequestTopic{TopicID: s.topics[topic], Partitions: []kmsg.FetchRequestTopicPartition{rp}})
		within(s.t, time.Minute, fmt.Sprint(topic, " ", p, " is served"), func() bool {
			resp, err := s.at("waits", req.Key(), 17).SeedBrokers()[0].RetriableRequest(s.t.Context(), req)
			return err == nil && len(resp.(*kmsg.FetchResponse).Topics) == 1 && resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
}

// TestFetchSessionsAnswerAsKafkaDoes has the same conversations in sessions with our broker and Apache Kafka.
func TestFetchSessionsAnswerAsKafkaDoes(t *testing.T) {
	kafka := peers.Kafka(t)
	ours := tcpLog(t).Addr()
	for _, version := range []int16{7, 12, 13, 17} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			got := sessionScript(t, ours, version)
			sameAsKafka(t, func() (differences []string) {
				want := sessionScript(t, kafka.Addr, version)
				for i := range want {
					if got[i] != want[i] {
						differences = append(differences, fmt.Sprintf("ours  %s\nKafka %s", got[i], want[i]))
					}
				}
				return differences
			})
		})
	}
}
