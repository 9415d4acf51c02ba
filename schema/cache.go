package schema

import (
	"container/list"
	"slices"
)

const (
	cacheSize = 1000 // results that a Cache keeps by default
	maxTwins  = 16   // pointers of equal schemas that lead to one result
)

// A Cache keeps what an instance (a transform, a converter, a writer) computed for
// a schema: the last schema's in a field, the 1,000 most recently used behind it.
// It is found by pointer, and by [Equal] where the pointer is new. The zero Cache
// is ready. Like its owner it is used by one goroutine at a time.
type Cache[T any] struct {
	Limit int // of schemas kept; 0: 1,000

	last  *Schema
	val   T
	byPtr map[*Schema]*list.Element
	byEq  map[uint64][]*list.Element // by hash
	order list.List                  // of *cached[T], most recent first
}

// cached is the result for all schemas that are equal.
type cached[T any] struct {
	val  T
	ptrs []*Schema // met so far, the newest last
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
	e, ok := c.byPtr[s]
	if !ok {
		if e = c.twin(s); e != nil {
			c.join(e, s)
		} else {
			val, err := compute(s)
			if err != nil {
				var none T
				return none, err
			}
			e = c.add(s, val)
		}
	}
	c.order.MoveToFront(e)
	c.last, c.val = s, e.Value.(*cached[T]).val
	return c.val, nil
}

func hashOfPtr(s *Schema) uint64 {
	if s == nil {
		return 0
	}
	return s.hash
}

// twin is the result for schemas that equal s, or nil.
func (c *Cache[T]) twin(s *Schema) *list.Element {
	for _, e := range c.byEq[hashOfPtr(s)] {
		if Equal(s, e.Value.(*cached[T]).ptrs[0]) {
			return e
		}
	}
	return nil
}

// join makes s lead to a result as well. A source that makes a new pointer each
// time pushes its old ones out, never the result.
func (c *Cache[T]) join(e *list.Element, s *Schema) {
	v := e.Value.(*cached[T])
	if len(v.ptrs) == maxTwins {
		delete(c.byPtr, v.ptrs[0])
		v.ptrs = slices.Delete(v.ptrs, 0, 1)
	}
	v.ptrs = append(v.ptrs, s)
	c.byPtr[s] = e
}

func (c *Cache[T]) add(s *Schema, val T) *list.Element {
	if c.byPtr == nil {
		c.byPtr = make(map[*Schema]*list.Element)
		c.byEq = make(map[uint64][]*list.Element)
	}
	limit := c.Limit
	if limit <= 0 {
		limit = cacheSize
	}
	if c.order.Len() >= limit {
		c.evict(c.order.Back())
	}
	e := c.order.PushFront(&cached[T]{val, []*Schema{s}})
	c.byPtr[s] = e
	h := hashOfPtr(s)
	c.byEq[h] = append(c.byEq[h], e)
	return e
}

func (c *Cache[T]) evict(e *list.Element) {
	v := c.order.Remove(e).(*cached[T])
	for _, s := range v.ptrs {
		delete(c.byPtr, s)
	}
	h := hashOfPtr(v.ptrs[0])
	same := c.byEq[h]
	i := slices.Index(same, e)
	if same = slices.Delete(same, i, i+1); len(same) == 0 {
		delete(c.byEq, h)
	} else {
		c.byEq[h] = same
	}
}
