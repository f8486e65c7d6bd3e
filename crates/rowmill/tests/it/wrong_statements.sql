# names of columns
SELECT «nme FROM towns -- hint
SELECT towns.«nme FROM towns -- hint
SELECT «t.name FROM towns
SELECT «x.name FROM towns AS t -- hint
SELECT «towns.name FROM towns AS t
SELECT name FROM towns WHERE «popel > 5 -- hint
SELECT name FROM towns WHERE name = «"naem" -- hint
SELECT name FROM towns ORDER BY «nam -- hint
SELECT name FROM towns GROUP BY «nam -- hint
SELECT COUNT(*) FROM towns GROUP BY name HAVING «peopl > 3 -- hint
SELECT name, COUNT(*) OVER (PARTITION BY «naem) FROM towns -- hint
SELECT name, SUM(people) OVER (ORDER BY «foundd) FROM towns -- hint
SELECT name FROM towns JOIN plain ON towns.id = plain.«x -- hint
SELECT name FROM towns JOIN plain USING («x) -- hint
SELECT «id FROM towns AS one JOIN towns AS two ON one.id = two.id -- hint
SELECT name FROM towns, big WHERE «people > 1 -- hint
SELECT * FROM (SELECT name FROM towns) AS t WHERE «people > 1
SELECT (SELECT «missing FROM plain LIMIT 1) FROM towns
SELECT name FROM towns WHERE id IN (SELECT «idd FROM towns) -- hint
SELECT name FROM towns WHERE EXISTS (SELECT 1 FROM plain WHERE plain.a = towns.«idd) -- hint
WITH w AS (SELECT name FROM towns) SELECT «people FROM w
WITH w (one) AS (SELECT name FROM towns) SELECT «name FROM w
SELECT upper(«nme) FROM towns -- hint
SELECT CASE WHEN «nme = 'x' THEN 1 END FROM towns -- hint
SELECT CAST(«nme AS INTEGER) FROM towns -- hint
SELECT name || «nme FROM towns -- hint
SELECT [id, «nme] FROM towns -- hint
SELECT COUNT(«nme) FROM towns -- hint
SELECT SUM(people) FILTER (WHERE «nme = 'x') FROM towns -- hint
SELECT «nme.x FROM towns
SELECT * EXCLUDE («nme) FROM towns -- hint
SELECT «x.* FROM towns
SELECT name FROM towns ORDER BY «5
SELECT name FROM towns GROUP BY «7
SELECT «"NAME " FROM towns -- hint
# names of relations
SELECT * FROM «twns -- hint
SELECT * FROM «towns.csv -- hint
SELECT * FROM «main.twns -- hint
SELECT * FROM «nowhere.towns -- hint
SELECT * FROM towns JOIN «plan ON true -- hint
SELECT * FROM towns, «missing
SELECT * FROM «information_schema.tabels
SELECT * FROM «pg_catalog.pg_clas
SELECT * FROM «'missing.csv' -- hint
SELECT * FROM «'missing.parquet' -- hint
SELECT * FROM «missing_function(1)
SELECT * FROM «rowmill_storge('towns') -- hint
SELECT * FROM «rowmill_storage('twns') -- hint
WITH w AS (SELECT 1) SELECT * FROM «v -- hint
WITH w AS (SELECT * FROM «twns) SELECT * FROM w -- hint
SELECT (SELECT COUNT(*) FROM «twns) -- hint
SELECT name FROM towns WHERE id IN (SELECT id FROM «twns) -- hint
INSERT INTO «twns VALUES (1) -- hint
UPDATE «twns SET name = 'x' -- hint
DELETE FROM «twns -- hint
MERGE INTO «twns USING plain ON true WHEN MATCHED THEN DELETE -- hint
MERGE INTO towns USING «plan ON true WHEN MATCHED THEN DELETE -- hint
COPY «twns FROM 'x.csv' -- hint
COPY «twns TO 'x.csv' -- hint
DROP TABLE «twns -- hint
DROP VIEW «bg -- hint
DROP INDEX «by_peple -- hint
DROP SEQUENCE «tickt -- hint
DROP SCHEMA «nowhere
ALTER TABLE «twns ADD COLUMN x INTEGER -- hint
TRUNCATE TABLE «twns -- hint
DESCRIBE «twns -- hint
SHOW CREATE TABLE «twns -- hint
ANALYZE «twns -- hint
CREATE INDEX i ON «twns (x) -- hint
REFRESH MATERIALIZED VIEW «pags -- hint
DROP TABLE «big -- hint
DROP VIEW «towns -- hint
INSERT INTO «big VALUES (1)
REFRESH MATERIALIZED VIEW «towns
CREATE TABLE «towns (a INTEGER) -- hint
CREATE VIEW «towns AS SELECT 1 AS x -- hint
CREATE SEQUENCE «ticket -- hint
CREATE SCHEMA «main
CREATE INDEX «by_people ON towns (name) -- hint
CREATE TABLE «nowhere.t (a INTEGER)
# functions
SELECT «uper(name) FROM towns -- hint
SELECT «sume(people) FROM towns -- hint
SELECT «upper() FROM towns
SELECT «upper(name, name) FROM towns
SELECT abs(«'x') FROM towns
SELECT «sum() FROM towns -- hint
SELECT «sum(name) FROM towns -- hint
SELECT «count(id, name) FROM towns -- hint
SELECT «row_number() FROM towns
SELECT rank() OVER (ORDER BY id ROWS x«) FROM towns
SELECT «lag() OVER (ORDER BY id) FROM towns
SELECT «upper(name) OVER () FROM towns
SELECT «sum(sum(people)) FROM towns -- hint
SELECT «sum(people) OVER (ORDER BY sum(sum(people)) OVER ()) FROM towns -- hint
SELECT «date_trunc('dy', founded) FROM towns -- hint
SELECT extract(dayz FROM «founded) FROM towns -- hint
SELECT «round(name, 2) FROM towns -- hint
SELECT «coalesce() FROM towns
SELECT «nullif(1) FROM towns
SELECT «greatest(1, 'x', DATE '2026-01-01') -- hint
SELECT «concat_ws() FROM towns
SELECT «string_agg() FROM towns
SELECT «percentile_cont(2) WITHIN GROUP (ORDER BY people) FROM towns
SELECT * FROM «generate_series('a', 'b') -- hint
SELECT «make_date(1, 2)
SELECT «to_timestamp('x', 1, 2) -- hint
SELECT regexp_matches('Ulm', «'(')
SELECT nextval(«'tickt')
SELECT nextval(«1)
# types
SELECT «name + 1 FROM towns -- hint
SELECT «name AND true FROM towns
SELECT -«name FROM towns -- hint
SELECT NOT «people FROM towns
SELECT «founded + founded FROM towns -- hint
SELECT «founded * 2 FROM towns -- hint
SELECT name FROM towns WHERE «people
SELECT name FROM towns WHERE «name
SELECT name FROM towns WHERE people = «'many'
SELECT name FROM towns WHERE founded > «'yesterday-ish'
SELECT name FROM towns WHERE «founded > 5 -- hint
SELECT name FROM towns WHERE «people LIKE 'x' -- hint
SELECT name FROM towns WHERE people IN (1, «'x')
SELECT name FROM towns WHERE people BETWEEN 1 AND «'x'
SELECT CASE WHEN «people THEN 1 END FROM towns
SELECT CAST(«'x' AS INTEGER)
SELECT CAST(«'x' AS INTEGR) -- hint
SELECT CAST(«founded AS BOOLEAN) FROM towns
SELECT «'x'::integer
SELECT «'x'::frobnicate
SELECT DATE «'not a date'
SELECT DATE «'2026-02-30'
SELECT TIMESTAMP «'2026-01-01 25:00'
SELECT INTERVAL «'1 parsec'
SELECT INTERVAL «'x'
SELECT «99999999999999999999999999999999999999999999999999999999999999999999999999999999 -- hint
SELECT 1 / «'x'
SELECT ARRAY[«1, DATE '2026-01-01'] -- hint
SELECT «people[1] FROM towns -- hint
SELECT («1, 2) = (1, 2, 3)
SELECT name FROM towns WHERE («id, name) IN (SELECT id FROM towns)
SELECT name FROM towns WHERE id = («SELECT id, name FROM towns)
SELECT name FROM towns LIMIT «'x'
SELECT name FROM towns LIMIT -«1
SELECT name FROM towns LIMIT «people
SELECT name FROM towns OFFSET «'x'
«SELECT 1 UNION SELECT 'x'
«SELECT 1 UNION SELECT DATE '2026-01-01' -- hint
«SELECT 1, 2 UNION SELECT 1
«SELECT 1 INTERSECT SELECT 1, 2
SELECT name FROM towns JOIN plain ON «people
SELECT now() AT «TIME ZONE 5 -- hint
SELECT decimal «'1.x'
SELECT CAST(«1 AS DECIMAL(99, 2)) -- hint
SELECT CAST(«1 AS DECIMAL(5, 9)) -- hint
# syntax
«SELEC 1
SELECT«
SELECT 1 FROM«
SELECT FROM «towns WHERE
SELECT * FROM towns WHERE id =«
SELECT * FROM towns WHERE id = «= 1
SELECT (1 + 2«
SELECT 1 + 2«)
SELECT «'never closed
SELECT «"never closed
SELECT 1 AS«
SELECT a b «c FROM plain
SELECT * FROM towns «ORDER name
SELECT * FROM towns «GROUP name
SELECT * FROM towns LIMIT 1 «LIMIT 2
SELECT * FROM towns WHERE id = 1 «WHERE id = 2
SELECT * FROM towns HAVING«
SELECT CASE WHEN «true THEN 1
SELECT CASE «END
SELECT CAST(1 «INTEGER)
SELECT * FROM towns JOIN«
SELECT * FROM towns JOIN «plain -- hint
SELECT * FROM towns «LEFT plain ON true
INSERT «towns VALUES (1) -- hint
INSERT INTO towns VALUES«
INSERT INTO towns VALUES (1, 'x'«
INSERT INTO towns (id «name) VALUES (1, 'x')
UPDATE towns name «= 'x'
UPDATE towns SET«
UPDATE towns SET name«
DELETE towns«
DELETE FROM towns WHERE«
CREATE TABLE«
CREATE TABLE «t -- hint
CREATE TABLE «t () -- hint
CREATE TABLE t (a«)
CREATE TABLE t (a INTEGER,«)
CREATE TABLE t (a INTEGER «b TEXT)
CREATE «TABEL t (a INTEGER)
CREATE INDEX ON«
DROP«
DROP TABLE«
ALTER TABLE towns«
ALTER TABLE towns ADD«
WITH w AS «SELECT 1 SELECT 2
WITH SELECT «1
SELECT * FROM (SELECT «1
SELECT * FROM towns;; «SELEC
BEGIN «TRANSACTIO
SET«
SET threads«
SET threads =«
EXPLAIN«
SELECT «$0 -- hint
SELECT @«x
SELECT 1 «!! 2
SELECT * FROM towns WHERE name LIKE«
SELECT * FROM towns WHERE id IN («)
SELECT * FROM towns WHERE id BETWEEN 1«
# arity and clauses
INSERT INTO «towns VALUES (1) -- hint
INSERT INTO «towns VALUES (1, 'x', 3, NULL, 5) -- hint
INSERT INTO «towns (id, name) VALUES (1) -- hint
INSERT INTO «towns (id, name) VALUES (1, 'x'), (2) -- hint
INSERT INTO towns (id, «nme) VALUES (1, 'x') -- hint
INSERT INTO towns (id, «id) VALUES (1, 2)
INSERT INTO «towns SELECT 1 -- hint
INSERT INTO towns (id, name) SELECT id, «nme FROM towns -- hint
INSERT INTO towns VALUES («'x', 'y', 1, NULL)
INSERT INTO towns VALUES (1, 'y', «'many', NULL)
INSERT INTO towns VALUES (1, 'y', 1, «'never') -- hint
INSERT INTO towns VALUES (1, 'y', «nme, NULL)
INSERT INTO «towns VALUES (1, 'x', 2, NULL) ON CONFLICT (people) DO NOTHING -- hint
INSERT INTO towns VALUES (1, 'x', 2, NULL) ON CONFLICT («nme) DO NOTHING -- hint
INSERT INTO towns VALUES (1, 'x', 2, NULL) ON CONFLICT (id) DO UPDATE SET «nme = 1 -- hint
INSERT INTO towns VALUES (1, 'x', 2, NULL) RETURNING «nme -- hint
UPDATE towns SET «nme = 'x' -- hint
UPDATE towns SET name = «nme -- hint
UPDATE towns SET «people = founded -- hint
UPDATE towns SET name = 'a', «name = 'b'
UPDATE towns SET name = 'x' WHERE «nme = 1 -- hint
UPDATE towns SET name = 'x' WHERE «people
UPDATE towns «SET (name, people) = (1)
UPDATE towns SET name = 'x' FROM «plan -- hint
UPDATE towns SET name = 'x' RETURNING «nme -- hint
DELETE FROM towns WHERE «nme = 'x' -- hint
DELETE FROM towns USING «plan WHERE true -- hint
DELETE FROM towns RETURNING «nme -- hint
MERGE INTO towns USING plain ON towns.id = plain.«x WHEN MATCHED THEN DELETE -- hint
MERGE INTO towns USING plain ON towns.id = plain.a WHEN MATCHED THEN UPDATE SET «nme = 1 -- hint
MERGE INTO «towns USING plain ON towns.id = plain.a WHEN NOT MATCHED THEN INSERT (id) VALUES (a, b) -- hint
SELECT «name, COUNT(*) FROM towns -- hint
SELECT name, «people FROM towns GROUP BY name -- hint
SELECT * FROM towns «GROUP BY name -- hint
SELECT name FROM towns WHERE «COUNT(*) > 1 -- hint
SELECT name FROM towns WHERE «row_number() OVER () = 1 -- hint
SELECT name FROM towns GROUP BY «COUNT(*)
SELECT «name FROM towns HAVING people > 1 -- hint
SELECT «name FROM towns ORDER BY COUNT(*) -- hint
SELECT DISTINCT name FROM towns «ORDER BY people -- hint
SELECT DISTINCT ON («nme) name FROM towns -- hint
SELECT COUNT(*) FROM towns GROUP BY ROLLUP («nme) -- hint
SELECT SUM(people) OVER «w FROM towns -- hint
SELECT «SUM(people) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM towns
SELECT SUM(people) OVER (ROWS BETWEEN «x PRECEDING AND CURRENT ROW) FROM towns -- hint
SELECT grouping(«nme) FROM towns GROUP BY name -- hint
SELECT name FROM towns QUALIFY «people
WITH RECURSIVE r AS (SELECT 1 AS n «UNION ALL SELECT n, 2 FROM r) SELECT * FROM r
WITH w («a, b) AS (SELECT 1) SELECT * FROM w
WITH w AS (SELECT 1), «w AS (SELECT 2) SELECT * FROM w
SELECT * FROM (VALUES (1, 2), «(3)) AS v
SELECT * FROM (SELECT 1 AS a) AS t («x, y)
SELECT * FROM towns AS t, plain AS «t -- hint
SELECT * FROM towns NATURAL JOIN visits WHERE «nme = 1 -- hint
# definitions
CREATE TABLE t («a INTEGR) -- hint
CREATE TABLE t (a INTEGER, «a TEXT) -- hint
CREATE TABLE t (a INTEGER, PRIMARY KEY («b))
CREATE TABLE t (a INTEGER «PRIMARY KEY, PRIMARY KEY (a)) -- hint
CREATE TABLE t (a INTEGER PRIMARY KEY, UNIQUE («b)) -- hint
CREATE TABLE t (a INTEGER DEFAULT «'x')
CREATE TABLE t (a INTEGER DEFAULT «b)
CREATE TABLE t (a INTEGER PRIMARY KEY, CHECK («b > 0)) -- hint
CREATE TABLE t (a INTEGER PRIMARY KEY, «CHECK (a))
CREATE TABLE t (a INTEGER PRIMARY KEY REFERENCES «twns (id)) -- hint
CREATE TABLE t (a INTEGER PRIMARY KEY REFERENCES towns («nme)) -- hint
CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, FOREIGN KEY («c) REFERENCES towns (id)) -- hint
CREATE TABLE t (a INTEGER PRIMARY KEY REFERENCES «plain (a)) -- hint
CREATE TABLE t AS SELECT «nme FROM towns -- hint
CREATE TABLE t («a DECIMAL(99)) -- hint
CREATE TABLE t («a TEXT COLLATE "klingon")
CREATE TABLE t (a INTEGER) «WITH (storag = 'row')
CREATE TABLE t (a INTEGER) «WITH (storage = 'cloud')
CREATE TABLE t (a INTEGER) «ORDER BY (b)
CREATE VIEW v AS SELECT «nme FROM towns -- hint
CREATE VIEW «v (a, b) AS SELECT 1
CREATE INDEX i ON towns («nme) -- hint
CREATE SEQUENCE s «INCREMENT BY 0
ALTER TABLE towns DROP COLUMN «nme -- hint
ALTER TABLE towns DROP COLUMN «id
ALTER TABLE towns RENAME COLUMN «nme TO x -- hint
ALTER TABLE towns RENAME COLUMN name TO «people
ALTER TABLE towns ADD COLUMN «name TEXT
ALTER TABLE towns ADD COLUMN «x INTEGR -- hint
ALTER TABLE towns ALTER COLUMN «nme SET DEFAULT 1 -- hint
ALTER TABLE towns ADD CONSTRAINT c CHECK («nme > 1) -- hint
ALTER TABLE towns RENAME TO «plain
CREATE FUNCTION f() RETURNS INTEGER«
CREATE TRIGGER t«
# files and settings
COPY towns FROM «'missing.csv' -- hint
COPY towns FROM «'missing.xyz' -- hint
COPY towns (id, «nme) FROM 'x.csv' -- hint
COPY towns FROM 'x.csv' («delimitr ';') -- hint
COPY towns FROM 'x.csv' (delimiter «'ab')
COPY towns FROM 'x.csv' (format «xml) -- hint
COPY towns TO 'x.csv' («compresion 'zstd') -- hint
COPY (SELECT «nme FROM towns) TO 'x.csv' -- hint
~COPY towns TO '/nowhere/at/all/x.csv' -- hint
COPY towns«
COPY towns FROM«
COPY FROM «'x.csv'
SET «thread = 2 -- hint
SET threads = «'many'
SET «threads = -1
SET memory_limit = «'1 parsec'
SET durability = «'sometimes'
SHOW «thread -- hint
RESET «thread -- hint
RESET «memory_limit -- hint
# transactions
~COMMIT -- hint
~ROLLBACK -- hint
~SAVEPOINT x -- hint
~ROLLBACK TO x -- hint
~RELEASE SAVEPOINT x -- hint
BEGIN ISOLATION LEVEL «CHAOS
# time clauses
SELECT page, COUNT(*) FROM visits SAMPLE BY 1«x -- hint
SELECT page, COUNT(*) FROM visits SAMPLE BY«
SELECT page, COUNT(*) FROM visits SAMPLE BY «0h
SELECT at, COUNT(*) FROM visits SAMPLE BY 1h FILL(«NOTHING)
SELECT at, COUNT(*) FROM visits SAMPLE BY 1h «FILL(1, 2) -- hint
SELECT at, COUNT(*) FROM visits SAMPLE BY 1h ALIGN TO «MOON
SELECT at, COUNT(*) FROM visits SAMPLE BY «1h ALIGN TO CALENDAR TIME ZONE 'Mars/Olympus' -- hint
SELECT name, COUNT(*) FROM towns «SAMPLE BY 1h -- hint
SELECT * FROM visits LATEST ON «att PARTITION BY page -- hint
SELECT * FROM visits LATEST ON at PARTITION BY «pge -- hint
SELECT * FROM visits LATEST «ON at
SELECT * FROM visits «ASOF JOIN towns -- hint
SELECT * FROM visits ASOF JOIN visits AS b ON «pge -- hint
SELECT * FROM visits ASOF JOIN visits AS b TOLERANCE 1«x -- hint
SELECT * FROM visits WHERE at IN «'2026-13'
SELECT * FROM visits WHERE at IN «'never' -- hint
SELECT time_bucket(«'1 parsec', at) FROM visits
SELECT «time_bucket(5, at) FROM visits -- hint
ALTER TABLE visits SET TTL 1 «x
ALTER TABLE visits DROP PARTITION LIST «'never' -- hint
ALTER TABLE visits DROP PARTITION WHERE «ms > 1 -- hint
ALTER TABLE «towns SET TTL 1 DAY -- hint
ALTER TABLE visits DEDUP ENABLE «UPSERT KEYS (page) -- hint
ALTER TABLE visits DEDUP ENABLE UPSERT KEYS (at, «pge) -- hint
CREATE TABLE t («a INTEGER, at TIMESTAMP) TIMESTAMP(a) -- hint
CREATE TABLE t (a INTEGER, at TIMESTAMP) TIMESTAMP(«att) -- hint
CREATE TABLE t (at TIMESTAMP) TIMESTAMP(at) PARTITION BY «CENTURY
CREATE TABLE t (at TIMESTAMP) TIMESTAMP(at) TTL «x
CREATE MATERIALIZED VIEW m REFRESH EVERY «1x AS SELECT 1 AS a -- hint
CREATE MATERIALIZED VIEW m AS SELECT «nme FROM towns -- hint
