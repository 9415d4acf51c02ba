package runtime

import (
	"fmt"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/registry"
)

// The settings of the schema registry: the original's, behind schema.registry.
var (
	registryListeners   = config.Key[[]string]{Name: "schema.registry.listeners", Doc: "Addresses of the schema registry, as http://HOST:PORT or https://HOST:PORT; none for no registry. Who may use it is told by the settings of the REST API: rest.auth, listeners.https.ssl, insecure.", Default: []string{"http://127.0.0.1:8081"}, Importance: config.Low, Check: registryListenerURLs}
	registryHost        = config.Key[string]{Name: "schema.registry.host.name", Doc: "Host by which other instances of the registry reach this one, where it is not the listener's.", Importance: config.Low}
	registryPort        = config.Key[int32]{Name: "schema.registry.host.port", Doc: "Port by which other instances of the registry reach this one, where it is not the listener's.", NullDefault: true, Importance: config.Low, Check: config.Between[int32](0, 65535)}
	registryGroup       = config.Key[string]{Name: "schema.registry.group.id", Doc: "Group in which instances of the registry agree on the one that writes.", Default: "schema-registry", Importance: config.Low, Check: config.NonEmpty}
	registryTopic       = config.Key[string]{Name: "schema.registry.kafkastore.topic", Doc: "Topic that keeps the schemas. It has one partition and is compacted; the one of another registry is served as it is.", Default: "_schemas", Importance: config.Low, Check: config.NonEmpty}
	registryReplication = config.Key[int16]{Name: "schema.registry.kafkastore.topic.replication.factor", Doc: "Replication factor with which the schemas' topic is made; -1 for the cluster's default.", Default: 3, Importance: config.Low, Check: replication}
	registryLevel       = config.Key[string]{Name: "schema.registry.schema.compatibility.level", Doc: "How versions of a subject must fit together where no configuration says so: none, backward, backward_transitive, forward, forward_transitive, full or full_transitive.", Default: "backward", Importance: config.Medium, Check: compatibilityLevel}
	registryFields      = config.Key[bool]{Name: "schema.registry.schema.validate.fields", Doc: "Whether fields may not have reserved names, where no configuration says so.", Importance: config.Low}
	registryNew         = config.Key[bool]{Name: "schema.registry.schema.validate.new.schemas", Doc: "Whether defaults and names of new schemas are validated, where no configuration says so.", Default: true, Importance: config.Low}
	registryModes       = config.Key[bool]{Name: "schema.registry.mode.mutability", Doc: "Whether modes can be changed.", Default: true, Importance: config.Low}
	registryEligible    = config.Key[bool]{Name: "schema.registry.leader.eligibility", Doc: "Whether this instance may be the one that writes.", Default: true, Importance: config.Low}
	registrySearch      = config.Key[int32]{Name: "schema.registry.schema.search.default.limit", Doc: "How many entries a list has where a request says no number; 0 for as many as it may have.", Importance: config.Low, Check: config.AtLeast[int32](0)}
	registrySearchMax   = config.Key[int32]{Name: "schema.registry.schema.search.max.limit", Doc: "Most entries of a list; 0 for 1,000 schemas, and 20,000 of what is shorter.", Importance: config.Low, Check: config.AtLeast[int32](0)}
	registrySession     = config.Key[time.Duration]{Name: "schema.registry.kafkagroup.session.timeout.ms", Doc: "Time without a heartbeat after which another instance of the registry takes over.", As: config.IntType, Default: 10 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}
	registryHeartbeat   = config.Key[time.Duration]{Name: "schema.registry.kafkagroup.heartbeat.interval.ms", Doc: "Time between two heartbeats of an instance of the registry.", As: config.IntType, Default: 3 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}
	registryRebalance   = config.Key[time.Duration]{Name: "schema.registry.kafkagroup.rebalance.timeout.ms", Doc: "Time in which every instance of the registry must join again once one has come or gone.", As: config.IntType, Default: 5 * time.Minute, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}
)

var registryDef = config.Define(registryListeners, registryHost, registryPort, registryGroup, registryTopic, registryReplication, registryLevel,
	registryFields, registryNew, registryModes, registryEligible, registrySearch, registrySearchMax, registrySession, registryHeartbeat, registryRebalance)

// RegistryConfig is what a worker's settings say of its schema registry.
type RegistryConfig struct {
	Listeners                     []ListenerAddr // none: there is no registry
	AdvertisedHost                string
	AdvertisedPort                int // 0: the listener's
	GroupID                       string
	Topic                         InternalTopic
	Eligible                      bool // to be the one that writes
	Session, Heartbeat, Rebalance time.Duration
	Rules                         registry.Settings // without the types of schemas
}

// Offered reports whether there is a registry at all.
func (c RegistryConfig) Offered() bool { return len(c.Listeners) > 0 }

func registryListenerURLs(list []string) error {
	if len(list) == 1 && list[0] == "none" {
		return nil
	}
	return listenerURLs(list)
}

func compatibilityLevel(s string) error {
	if _, ok := registry.ParseLevel(s); !ok {
		return fmt.Errorf("there is no such level; there are %s", strings.ToLower(fmt.Sprint(registry.Levels)))
	}
	return nil
}

func parseRegistry(v config.Values) (RegistryConfig, []*config.Error) {
	level, _ := registry.ParseLevel(registryLevel.Get(v)) // its own check has told
	c := RegistryConfig{
		AdvertisedHost: registryHost.Get(v), AdvertisedPort: int(registryPort.Get(v)), GroupID: registryGroup.Get(v),
		Topic:    InternalTopic{registryTopic.Get(v), 1, registryReplication.Get(v), nil},
		Eligible: registryEligible.Get(v), Session: registrySession.Get(v), Heartbeat: registryHeartbeat.Get(v), Rebalance: registryRebalance.Get(v),
		Rules: registry.Settings{Compatibility: level, ValidateFields: registryFields.Get(v), ValidateNewSchemas: registryNew.Get(v), ModeImmutable: !registryModes.Get(v),
			SearchDefault: int(registrySearch.Get(v)), SearchMax: int(registrySearchMax.Get(v))},
	}
	for _, text := range registryListeners.Get(v) {
		if a, err := parseListener(text); err == nil {
			c.Listeners = append(c.Listeners, a)
		}
	}
	if c.Offered() && c.Heartbeat >= c.Session {
		return c, []*config.Error{registryHeartbeat.Errorf(v, "must be shorter than %s (%d); a third of it is usual", registrySession.Name, c.Session.Milliseconds())}
	}
	return c, nil
}
