package herder

import (
	"context"
	"maps"

	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
)

// PatchConfig merges settings into a connector's configuration: those of patch are set,
// those that are null there are removed. What others change meanwhile is not lost.
func (h *Herder) PatchConfig(ctx context.Context, name string, patch runtime.FlatConfig) (runtime.ConnectorInfo, error) {
	none := runtime.ConnectorInfo{}
	for _, key := range patch.Nulls {
		if key == settings.Name.Name {
			return none, runtime.BadRequest("a connector's name cannot be removed")
		}
	}
	for {
		c, err := h.connector(name)
		if err != nil {
			return none, err
		}
		merged := maps.Clone(c.Config)
		maps.Copy(merged, patch.Values)
		for _, key := range patch.Nulls {
			delete(merged, key)
		}
		overtaken := false
		info, _, err := h.putConfig(ctx, name, merged, "", func(now *store.Connector) error {
			if now == nil {
				return runtime.NotFound("Connector %s not found", name)
			}
			if overtaken = now.Version != c.Version; overtaken {
				return runtime.Conflict("the configuration of connector %s was changed meanwhile", name)
			}
			return nil
		})
		if overtaken && ctx.Err() == nil {
			continue
		}
		return info, err
	}
}
