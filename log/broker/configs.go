package broker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/catalog"
)

// DescribeConfigs, key 32, versions 1 to 4: 3 added types and documentation, 4 flexible encoding.
// IncrementalAlterConfigs, key 44, versions 0 and 1. AlterConfigs, key 33, versions 0 to 2: it
// replaces all that is set. Topics and consumer groups can be altered; the broker's settings are described only, they
// come from the process's own configuration.

func (s *Server) describeConfigs(_ *call, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range req.Resources {
		q := &req.Resources[i]
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = q.ResourceType, q.ResourceName
		var err error
		switch q.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			r.Configs, err = s.topicConfigs(req, q)
		case kmsg.ConfigResourceTypeBroker:
			r.Configs, err = s.brokerConfigs(req, q)
		case kmsg.ConfigResourceTypeGroupConfig:
			r.Configs, err = s.groupConfigs(req, q)
		default:
			err = &catalog.Error{Code: kerr.InvalidRequest, Reason: "Unsupported resource type: " + strconv.Itoa(int(q.ResourceType))}
		}
		r.ErrorCode, r.ErrorMessage = refusal(err)
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

func wanted(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

func (s *Server) topicConfigs(req *kmsg.DescribeConfigsRequest, q *kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	t := s.cat.Topic(q.ResourceName)
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for i := range catalog.Configs {
		d := &catalog.Configs[i]
		if !wanted(q.ConfigNames, d.Name) {
			continue
		}
		value, source := s.cat.Config(t.Configs, d)
		c := s.describeConfig(req, d, value, source)
		c.Name = d.Name
		out = append(out, c)
	}
	return out, nil
}

func (s *Server) groupConfigs(req *kmsg.DescribeConfigsRequest, q *kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if q.ResourceName == "" {
		return nil, &catalog.Error{Code: kerr.InvalidRequest, Reason: "Group name must not be empty"}
	}
	set := s.cat.GroupConfig(q.ResourceName)
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for i := range catalog.GroupConfigs {
		d := &catalog.GroupConfigs[i]
		if !wanted(q.ConfigNames, d.Name) {
			continue
		}
		value, source := d.Default, catalog.FromDefault
		if v, ok := set[d.Name]; ok {
			value, source = v, catalog.FromGroup
		}
		c := s.describeConfig(req, d, value, source)
		c.Name = d.Name
		out = append(out, c)
	}
	return out, nil
}

// indirect are configurations whose broker-wide name has no default in Kafka: another one has
// (log.retention.hours for log.retention.ms), which clients are not told.
var indirect = []string{"flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms"}

func (s *Server) describeConfig(req *kmsg.DescribeConfigsRequest, d *catalog.Config, value string, source catalog.Source) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Value, c.Source, c.ConfigType = &value, kmsg.ConfigSource(source), kmsg.ConfigType(d.Kind)
	c.IsDefault = source == catalog.FromDefault
	if req.IncludeDocumentation {
		c.Documentation = &d.Doc
	}
	if !req.IncludeSynonyms {
		return c
	}
	synonym := func(name, value string, source catalog.Source) {
		y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		y.Name, y.Value, y.Source = name, &value, kmsg.ConfigSource(source)
		c.ConfigSynonyms = append(c.ConfigSynonyms, y)
	}
	if source == catalog.FromTopic || source == catalog.FromGroup {
		synonym(d.Name, value, source)
	}
	if d.Synonym == "" {
		return c
	}
	if v, from := s.cat.Config(nil, d); from == catalog.FromBroker && catalog.FindGroupConfig(d.Name) == nil {
		synonym(d.Synonym, v, from)
	}
	if !slices.Contains(indirect, d.Name) {
		synonym(d.Synonym, d.Default, catalog.FromDefault)
	}
	return c
}

// brokerSetting is a setting of the broker that clients look at and that no topic has.
type brokerSetting struct {
	name  string
	kind  catalog.Kind
	value func(s *Server) string
}

var brokerSettings = []brokerSetting{
	{"auto.create.topics.enable", catalog.Bool, func(s *Server) string { return strconv.FormatBool(!s.opt.NoAutoCreate) }},
	{"broker.id", catalog.Int, func(s *Server) string { return strconv.Itoa(int(s.opt.NodeID)) }},
	{"default.replication.factor", catalog.Int, func(*Server) string { return "1" }},
	{"delete.topic.enable", catalog.Bool, func(*Server) string { return "true" }},
	{"log.dirs", catalog.String, func(s *Server) string { return s.opt.DataDir }},
	{"node.id", catalog.Int, func(s *Server) string { return strconv.Itoa(int(s.opt.NodeID)) }},
	{"num.partitions", catalog.Int, func(s *Server) string { return strconv.Itoa(int(s.opt.Partitions)) }},
	{"offsets.topic.num.partitions", catalog.Int, func(*Server) string { return "1" }},
	{"offsets.topic.replication.factor", catalog.Int, func(*Server) string { return "1" }},
	{"socket.request.max.bytes", catalog.Int, func(s *Server) string { return strconv.Itoa(int(s.opt.MaxRequest)) }},
	{"transaction.state.log.num.partitions", catalog.Int, func(*Server) string { return "1" }},
	{"transaction.state.log.replication.factor", catalog.Int, func(*Server) string { return "1" }},
}

func (s *Server) brokerConfigs(req *kmsg.DescribeConfigsRequest, q *kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	// The empty name means the cluster-wide defaults that were altered: none can be.
	if q.ResourceName == "" {
		return nil, nil
	}
	if q.ResourceName != strconv.Itoa(int(s.opt.NodeID)) {
		return nil, &catalog.Error{Code: kerr.InvalidRequest, Reason: "Unexpected broker id, expected " + strconv.Itoa(int(s.opt.NodeID)) + " or empty string, but received " + q.ResourceName}
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for i := range catalog.Configs {
		d := &catalog.Configs[i]
		if d.Synonym == "" || !wanted(q.ConfigNames, d.Synonym) {
			continue
		}
		value, source := s.cat.Config(nil, d)
		c := s.describeConfig(req, d, value, source)
		c.Name, c.ReadOnly = d.Synonym, true
		out = append(out, c)
	}
	for _, b := range brokerSettings {
		if wanted(q.ConfigNames, b.name) {
			c := kmsg.NewDescribeConfigsResponseResourceConfig()
			value := b.value(s)
			c.Name, c.Value, c.ReadOnly, c.Source, c.ConfigType = b.name, &value, true, kmsg.ConfigSource(catalog.FromBroker), kmsg.ConfigType(b.kind)
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (s *Server) incrementalAlterConfigs(_ *call, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for i := range req.Resources {
		q := &req.Resources[i]
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = q.ResourceType, q.ResourceName
		r.ErrorCode, r.ErrorMessage = s.alterResource(q.ResourceType, q.ResourceName, req.ValidateOnly, func(set map[string]string, find func(string) *catalog.Config) error {
			for _, c := range q.Configs {
				if err := s.alter(set, find, c.Name, c.Op, c.Value); err != nil {
					return err
				}
			}
			return nil
		})
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

// alterResource has change alter what is set on a topic or a group, and says how it went.
func (s *Server) alterResource(kind kmsg.ConfigResourceType, name string, validateOnly bool, change func(set map[string]string, find func(string) *catalog.Config) error) (code int16, message *string) {
	alter, find, err := s.alterable(kind, name)
	if err == nil {
		err = alter(name, validateOnly, func(set map[string]string) error { return change(set, find) })
	}
	return refusal(err)
}

// alterable returns what changes the configurations of a kind of resource, and their declarations.
func (s *Server) alterable(kind kmsg.ConfigResourceType, name string) (change func(name string, dryRun bool, change func(set map[string]string) error) error, find func(string) *catalog.Config, err error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return s.cat.AlterConfigs, catalog.FindConfig, nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, nil, &catalog.Error{Code: kerr.InvalidRequest, Reason: "Default group resources are not allowed."}
		}
		return s.cat.AlterGroupConfigs, catalog.FindGroupConfig, nil
	case kmsg.ConfigResourceTypeBroker:
		return nil, nil, &catalog.Error{Code: kerr.InvalidRequest, Reason: "the broker's settings cannot be altered through the protocol; they stand in the configuration of the process"}
	default:
		return nil, nil, &catalog.Error{Code: kerr.InvalidRequest, Reason: "Unsupported resource type: " + strconv.Itoa(int(kind))}
	}
}

// alter carries one operation out on what is set on a topic or a group. Append and subtract are for lists, and
// start from what is in effect.
func (s *Server) alter(set map[string]string, find func(string) *catalog.Config, name string, op kmsg.IncrementalAlterConfigOp, value *string) error {
	d := find(name)
	if op == kmsg.IncrementalAlterConfigOpDelete {
		if d == nil {
			return &catalog.Error{Code: kerr.InvalidConfig, Reason: "Unknown config name: " + name}
		}
		delete(set, name)
		return nil
	}
	if value == nil {
		return &catalog.Error{Code: kerr.InvalidRequest, Reason: "Null value not supported for : " + name}
	}
	switch op {
	case kmsg.IncrementalAlterConfigOpSet:
		set[name] = *value
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		if d == nil || d.Kind != catalog.List {
			return &catalog.Error{Code: kerr.InvalidConfig, Reason: "Can't append or subtract to a config that is not a list: " + name}
		}
		now, _ := s.cat.Config(set, d)
		set[name] = alterList(now, *value, op == kmsg.IncrementalAlterConfigOpAppend)
	default:
		return &catalog.Error{Code: kerr.InvalidRequest, Reason: "Unknown operation on " + name}
	}
	return nil
}

func alterList(list, change string, add bool) string {
	var out []string
	keep := func(e string) {
		if e = strings.TrimSpace(e); e != "" && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	for e := range strings.SplitSeq(list, ",") {
		keep(e)
	}
	for e := range strings.SplitSeq(change, ",") {
		if add {
			keep(e)
		} else {
			out = slices.DeleteFunc(out, func(o string) bool { return o == strings.TrimSpace(e) })
		}
	}
	return strings.Join(out, ",")
}

func (s *Server) alterConfigs(_ *call, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterConfigsResponse()
	for i := range req.Resources {
		q := &req.Resources[i]
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = q.ResourceType, q.ResourceName
		r.ErrorCode, r.ErrorMessage = s.alterResource(q.ResourceType, q.ResourceName, req.ValidateOnly, func(set map[string]string, find func(string) *catalog.Config) error {
			clear(set)
			for _, c := range q.Configs {
				if err := s.alter(set, find, c.Name, kmsg.IncrementalAlterConfigOpSet, c.Value); err != nil {
					return err
				}
			}
			return nil
		})
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}
