-- What Spark writes otherwise than DuckDB: everything in queries/ and sums/ is the same text for both.
CREATE OR REPLACE TEMPORARY FUNCTION quotient(a BIGINT, b BIGINT) RETURNS BIGINT RETURN a DIV b;
