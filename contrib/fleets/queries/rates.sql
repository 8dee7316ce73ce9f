-- IOPS and bytes a second over time: one row for each second of a volume's trace and operation with something in it. The sums over time are
-- those of operations.sql.
SELECT
    volume,
    op,
    quotient(issued_ns, 1000000000) AS second,
    count(*) AS requests,
    CAST(sum(size_bytes) AS BIGINT) AS bytes
FROM requests
GROUP BY volume, op, quotient(issued_ns, 1000000000);
