package herder

import (
	"context"
	"errors"
	"maps"
	"time"

	"millrace/runtime"
	"millrace/runtime/settings"
)

// previewTime bounds a preview: what has come until then is the answer.
const previewTime = 20 * time.Second

// Preview runs the first records of a configuration through its chain and writes nothing.
// conf is a whole configuration; nil stands for that of the connector called name.
func (h *Herder) Preview(ctx context.Context, name string, conf map[string]string, records int) (runtime.Preview, error) {
	if conf == nil {
		c, err := h.connector(name)
		if err != nil {
			return runtime.Preview{}, err
		}
		conf = c.Config
	}
	conf = maps.Clone(conf)
	if name == "" {
		name = conf[settings.Name.Name]
	}
	if name == "" {
		name = "preview"
	}
	conf[settings.Name.Name] = name
	infos, err := h.Validate(ctx, conf)
	if err != nil {
		return runtime.Preview{}, err
	}
	if text := settings.ErrorText(infos); text != "" {
		return runtime.Preview{}, runtime.BadRequest("%s", text)
	}
	ctx, cancel := context.WithTimeout(ctx, previewTime)
	defer cancel()
	p, err := h.worker.Preview(ctx, name, conf, records)
	var bad *runtime.BadRequestError
	if err == nil || errors.As(err, &bad) {
		return p, err
	}
	return p, runtime.BadRequest("the preview failed: %s", err)
}
