package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

func TestApiVersions(t *testing.T) {
	n := start(t)
	w := n.dial()
	t.Run("a version from the future is answered in the form of version 0, and the connection goes on", func(t *testing.T) {
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := w.receive(w.send(kmsg.NewPtrApiVersionsRequest(), 99), resp, 0); err != nil {
			t.Fatal(err)
		}
		if resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 4 {
			t.Errorf("%+v", resp)
		}
	})
	for v := int16(0); v <= 4; v++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
		resp := ask[*kmsg.ApiVersionsResponse](w, req, v)
		if resp.ErrorCode != 0 {
			t.Errorf("version %d: error %d", v, resp.ErrorCode)
		}
		for _, k := range resp.ApiKeys {
			a, ok := wire.Lookup(k.ApiKey)
			if !ok || a.Min != k.MinVersion || a.Max != k.MaxVersion || n.srv.handlers[k.ApiKey] == nil {
				t.Errorf("version %d announces kind %d from %d to %d", v, k.ApiKey, k.MinVersion, k.MaxVersion)
			}
		}
	}
	t.Run("a malformed software name is refused", func(t *testing.T) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "-bad-", "1.0"
		if resp := ask[*kmsg.ApiVersionsResponse](w, req, 3); resp.ErrorCode != 42 {
			t.Errorf("error %d, want 42", resp.ErrorCode)
		}
	})
}
