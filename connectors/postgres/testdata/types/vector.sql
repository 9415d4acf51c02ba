-- Vectors of pgvector.
CREATE SCHEMA t;
CREATE EXTENSION vector;
CREATE TABLE t.vectors (id int PRIMARY KEY, v vector, v3 vector(3), h halfvec, h3 halfvec(3), s sparsevec, s5 sparsevec(5), vs vector(2)[], v_req vector(2) NOT NULL, h_req halfvec(2) NOT NULL, s_opt sparsevec(3), d vector(2) DEFAULT '[1,2]');
INSERT INTO t.vectors VALUES (1, '[1.5,-2,0.1]', '[1,2,3]', '[0.1,65504,-1]', '[1,2,3]', '{1:1.5,3:-2}/10', '{}/5', ARRAY['[1,2]'::vector, NULL], '[1,2]', '[1,2]', '{1:1}/3', '[3,4]'),
  (2, '[3.4028235e38,1e-40]', NULL, '[6e-8]', NULL, '{1:1,2:0.25,5:3}/32767', '{5:1e-10}/5', '{}', '[0.1,0.2]', '[0.1,0.2]', '{}/3', NULL),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[0,0]', '[0,0]', '{}/3', NULL);
