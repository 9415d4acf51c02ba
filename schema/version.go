package schema

// The versions with which we answer where clients expect those of the originals.
const (
	ConnectVersion  = "4.3.1"
	DebeziumVersion = "3.6.1.Final"
	RegistryVersion = "8.0.0"
)
