-- Shapes of PostGIS.
CREATE SCHEMA t;
CREATE EXTENSION postgis;
CREATE DOMAIN t.place AS geometry(Point, 4326);
CREATE TABLE t.shapes (id int PRIMARY KEY, geom geometry, pt geometry(Point), pt4326 geometry(Point, 4326), ptz geometry(PointZ, 4326), poly geometry(Polygon, 3187), geog geography, geogpt geography(Point, 4326),
  place t.place, geoms geometry[], geogs geography[], b2 box2d, b3 box3d, rast text, g_req geometry NOT NULL, gg_req geography NOT NULL, d geometry DEFAULT 'POINT(1 2)');
INSERT INTO t.shapes VALUES (1, 'POINT(1 2)', 'POINT(1 2)', 'SRID=4326;POINT(174.9479 -36.7208)', 'SRID=4326;POINT Z(1 2 3)', 'SRID=3187;POLYGON((0 0,1 0,1 1,0 0))', 'LINESTRING(0 0, 1 1)', 'POINT(1 2)',
  'SRID=4326;POINT(1 2)', ARRAY['POINT(1 2)'::geometry, NULL, 'SRID=4326;POINT(3 4)'::geometry], ARRAY['POINT(1 2)'::geography], 'BOX(1 2,3 4)', 'BOX3D(1 2 3,4 5 6)', 'x', 'POINT EMPTY', 'POINT(5 6)', 'POINT(1 2)'),
  (2, 'GEOMETRYCOLLECTION EMPTY', 'POINT EMPTY', NULL, NULL, NULL, 'SRID=4269;POINT(1 2)', NULL, NULL, '{}', '{}', NULL, NULL, NULL, 'MULTIPOLYGON(((0 0,1 0,1 1,0 0)))', 'POINT(0 0)', NULL),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'LINESTRING M(0 0 1,1 1 2)', 'POINT(0 0)', NULL);
