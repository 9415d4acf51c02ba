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
	if s.opt.Txns != nil {
		// Level 2 tells producers that each transaction has an epoch of its own (KIP-890).
		resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: "transaction.version", MinVersion: 0, MaxVersion: 2})
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: "transaction.version", MinVersionLevel: 2, MaxVersionLevel: 2})
		resp.FinalizedFeaturesEpoch = 0
	}
	return resp
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
