package avroconverter

import (
	"context"
	"fmt"

	"millrace/schema"
	"millrace/schema/registry"
	"millrace/schema/registry/client"
)

// Rules of a schema run in its clients: they check, change and encrypt data. None runs here. As the original does without the classes that
// run them, data under a rule is refused, unless the rule says that its failure is nothing. Data that a rule should have encrypted never
// goes out in the clear.

// mayWrite is why data cannot be written under a schema.
func mayWrite(k client.Known) error {
	if k.Rules == nil {
		return nil
	}
	return noneRuns(k, "WRITE", k.Rules.DomainRules, k.Rules.EncodingRules)
}

// mayRead is why data that was written under a schema cannot be read.
func mayRead(k client.Known) error {
	if k.Rules == nil {
		return nil
	}
	return noneRuns(k, "READ", k.Rules.DomainRules, k.Rules.EncodingRules)
}

// mayStay is why data cannot be left in the form of the schema it was written with, where the settings name the form that is wanted.
func (c *converter) mayStay(ctx context.Context, subject string) error {
	if !c.latest && c.metadata == nil {
		return nil
	}
	k, err := c.wanted(ctx, subject)
	if err != nil || k.Rules == nil {
		return err
	}
	if err := noneRuns(k, "UPGRADE", k.Rules.MigrationRules); err != nil {
		return err
	}
	return noneRuns(k, "DOWNGRADE", k.Rules.MigrationRules)
}

// wanted is the version that the settings name.
func (c *converter) wanted(ctx context.Context, subject string) (client.Known, error) {
	if c.metadata != nil {
		return c.registry.LatestWith(ctx, subject, c.metadata)
	}
	return c.registry.Latest(ctx, subject)
}

func noneRuns(k client.Known, mode string, sets ...[]registry.Rule) error {
	for _, rules := range sets {
		for i := range rules {
			if r := &rules[i]; r.RunsIn(mode) && r.On(r.OnFailure, mode) != "NONE" {
				return &schema.DataError{Reason: fmt.Sprintf("the schema %d has the rule %q of the type %s for %s, which this converter does not run; disable the rule, or let its onFailure be NONE", k.ID, r.Name, r.Type, mode)}
			}
		}
	}
	return nil
}
