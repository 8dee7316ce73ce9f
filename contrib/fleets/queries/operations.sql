-- Requests and bytes by operation. analyze: report.operations.
WITH counts AS (
    SELECT
        volume,
        op,
        count(*) AS requests,
        CAST(sum(size_bytes) AS BIGINT) AS bytes,
        min(issued_ns) AS first_ns,
        max(issued_ns) AS last_ns
    FROM requests
    GROUP BY volume, op
),
lengths AS (
    SELECT *, max(last_ns) OVER (PARTITION BY volume) - min(first_ns) OVER (PARTITION BY volume) AS duration_ns
    FROM counts
)
SELECT
    volume,
    op,
    requests,
    bytes,
    CAST(requests AS DOUBLE) * 1e9 / nullif(duration_ns, 0) AS requests_per_s,
    CAST(bytes AS DOUBLE) * 1e9 / nullif(duration_ns, 0) AS bytes_per_s
FROM lengths;
