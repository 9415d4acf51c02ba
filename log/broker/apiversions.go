package broker

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// ApiVersions, key 18, versions 0 to 4. 3 added the client's software name and version and features,
// 4 lets a feature's minimum be 0.

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (s *Server) apiVersions(c *call, req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	for key, h := range s.handlers {
		if h == nil {
			continue
		}
		a, _ := wire.Lookup(int16(key))
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Min, a.Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	resp.Version = req.Version
	if s.opt.Groups != nil {
		feature(resp, "group.version", 1) // clients of the newer consumer protocol look for it
	}
	if s.opt.Txns != nil {
		feature(resp, "transaction.version", 2) // each transaction has an epoch of its own (KIP-890)
	}
	return resp
}

// feature says that a feature is on, at the one level that we have beside 0.
func feature(resp *kmsg.ApiVersionsResponse, name string, level int16) {
	if resp.FinalizedFeaturesEpoch < 0 {
		resp.FinalizedFeaturesEpoch = 0
	}
	if resp.Version >= 4 { // before, a minimum of 0 could not be said
		f := kmsg.NewApiVersionsResponseSupportedFeature()
		f.Name, f.MinVersion, f.MaxVersion = name, 0, level
		resp.SupportedFeatures = append(resp.SupportedFeatures, f)
	}
	fin := kmsg.NewApiVersionsResponseFinalizedFeature()
	fin.Name, fin.MinVersionLevel, fin.MaxVersionLevel = name, level, level
	resp.FinalizedFeatures = append(resp.FinalizedFeatures, fin)
}

// tooNew answers a version that we do not know, in the form of version 0. Clients retry with the
// range they find in it.
func tooNew() kmsg.Response {
	a, _ := wire.Lookup(wire.ApiVersions)
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.Min, a.Max
	resp.ApiKeys = append(resp.ApiKeys, k)
	return resp
}
