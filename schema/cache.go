package schema

import (
	"container/list"
	"slices"
)

// cacheSize is the number of schemas whose results a Cache keeps by default.
const cacheSize = 1000

// A Cache keeps what an instance (a transform, a converter, a writer) computed for
// a schema: the last schema's in a field, the 1,000 most recently used behind it.
// It is found by pointer, and by [Equal] where the pointer is new. The zero Cache
// is ready. Like its owner it is used by one goroutine at a time.
type Cache[T any] struct {
	Limit int // of schemas kept; 0: 1,000

	last  *Schema
	val   T
	byPtr map[*Schema]*list.Element
	byEq  map[uint64][]*Schema // one pointer per equal schema, by hash
	order list.List            // of cached[T], most recent first
}

type cached[T any] struct {
	s   *Schema
	val T
}

// Get is make's result for s, computed once. The nil schema has a result, too. An
// error is not kept.
func (c *Cache[T]) Get(s *Schema, make func(*Schema) (T, error)) (T, error) {
	if s == c.last && c.byPtr != nil {
		return c.val, nil
	}
	return c.slow(s, make)
}

func (c *Cache[T]) slow(s *Schema, compute func(*Schema) (T, error)) (T, error) {
	if c.byPtr == nil {
		c.byPtr = make(map[*Schema]*list.Element)
		c.byEq = make(map[uint64][]*Schema)
	} else if e, ok := c.byPtr[s]; ok {
		c.order.MoveToFront(e)
		c.last, c.val = s, e.Value.(cached[T]).val
		return c.val, nil
	}
	var val T
	if twin := c.twin(s); twin != nil {
		val = c.byPtr[twin].Value.(cached[T]).val
		// The newest pointer stands for all equal ones: it will be the last to go.
		same := c.byEq[s.hash]
		same[slices.Index(same, twin)] = s
	} else {
		var err error
		if val, err = compute(s); err != nil {
			var none T
			if c.order.Len() == 0 {
				c.byPtr = nil // nothing kept: the zero "last" must not look like a hit
			}
			return none, err
		}
		if s != nil {
			c.byEq[s.hash] = append(c.byEq[s.hash], s)
		}
	}
	c.byPtr[s] = c.order.PushFront(cached[T]{s, val})
	c.last, c.val = s, val
	limit := c.Limit
	if limit <= 0 {
		limit = cacheSize
	}
	if c.order.Len() > limit {
		c.evict(c.order.Back())
	}
	return val, nil
}

// twin is a cached schema that equals s, or nil.
func (c *Cache[T]) twin(s *Schema) *Schema {
	if s == nil {
		return nil
	}
	for _, t := range c.byEq[s.hash] {
		if Equal(s, t) {
			return t
		}
	}
	return nil
}

func (c *Cache[T]) evict(e *list.Element) {
	s := c.order.Remove(e).(cached[T]).s
	delete(c.byPtr, s)
	if s == nil {
		return
	}
	same := c.byEq[s.hash]
	for i, t := range same {
		if t == s {
			same = append(same[:i:i], same[i+1:]...)
			break
		}
	}
	if len(same) == 0 {
		delete(c.byEq, s.hash)
	} else {
		c.byEq[s.hash] = same
	}
}
