-- Run once the snapshot is over: the same rows as changes.
INSERT INTO t.vectors SELECT id + 100, v, v3, h, h3, s, s5, vs, v_req, h_req, s_opt, d FROM t.vectors ORDER BY id;
DELETE FROM t.vectors WHERE id = 101;
CREATE TABLE t.done (id int PRIMARY KEY);
INSERT INTO t.done VALUES (1);
