-- Run once the snapshot is over: the same rows as changes.
INSERT INTO t.shapes SELECT id + 100, geom, pt, pt4326, ptz, poly, geog, geogpt, place, geoms, geogs, b2, b3, rast, g_req, gg_req, d FROM t.shapes ORDER BY id;
DELETE FROM t.shapes WHERE id = 101;
CREATE TABLE t.done (id int PRIMARY KEY);
INSERT INTO t.done VALUES (1);
