package registry

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// The group's protocol is the original's: type sr, protocol v0, JSON on both ways.
//
//	metadata    {"version":1,"host":h,"port":p,"master_eligibility":b,"scheme":"http","leader":b}
//	assignment  {"error":0,"master":member id,"master_identity":metadata,"version":1}
const (
	protocolType = "sr"
	protocolName = "v0"

	// duplicateURLs says that two members have one address, so that nobody could tell them apart.
	duplicateURLs = 1

	maxProtocolBytes = 64 << 10
)

// identity is a member as it introduces itself.
type identity struct {
	Version  int    `json:"version"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Eligible bool   `json:"master_eligibility"`
	Scheme   string `json:"scheme"`
	Leader   bool   `json:"leader"` // is the one that writes, and stays so when others come
}

// assignment is what all members are told.
type assignment struct {
	Error   int       `json:"error"`
	Member  string    `json:"master,omitempty"`
	Leader  *identity `json:"master_identity,omitempty"`
	Version int       `json:"version"`
}

func identityOf(address string, eligible bool) (identity, error) {
	u, err := url.Parse(address)
	if err != nil {
		return identity{}, err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || u.Hostname() == "" {
		return identity{}, fmt.Errorf("address %q of this instance: want http://host:port", address)
	}
	return identity{Version: 1, Host: u.Hostname(), Port: port, Eligible: eligible, Scheme: u.Scheme}, nil
}

// url is where a member is reached, without a slash at its end.
func (i identity) url() string {
	scheme := i.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return scheme + "://" + net.JoinHostPort(i.Host, strconv.Itoa(i.Port))
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("registry: " + err.Error()) // texts and numbers
	}
	return b
}

func decode[T any](b []byte) (v T, err error) {
	if len(b) > maxProtocolBytes {
		return v, fmt.Errorf("%d bytes, more than %d", len(b), maxProtocolBytes)
	}
	err = json.Unmarshal(b, &v)
	return v, err
}

// elect chooses the member that writes: the one that does already, if it is one alone, otherwise the eligible one with the first
// address.
func elect(members map[string]identity) assignment {
	out := assignment{Version: 1}
	urls := map[string]bool{}
	first, standing, many := "", "", false
	for id, m := range members {
		urls[m.url()] = true
		if !m.Eligible {
			continue
		}
		if first == "" || m.url() < members[first].url() {
			first = id
		}
		if m.Leader {
			many = standing != ""
			standing = id
		}
	}
	if standing != "" && !many {
		first = standing
	}
	if len(urls) < len(members) {
		out.Error = duplicateURLs
	}
	if first != "" {
		leader := members[first]
		out.Member, out.Leader = first, &leader
	}
	return out
}
