-- What DuckDB writes otherwise than Spark: everything in queries/ and sums/ is the same text for both.
CREATE OR REPLACE TEMPORARY MACRO quotient(a, b) AS a // b;
CREATE OR REPLACE TEMPORARY MACRO explode(list) AS unnest(list);
CREATE OR REPLACE TEMPORARY MACRO sequence(a, b) AS generate_series(a, b);
