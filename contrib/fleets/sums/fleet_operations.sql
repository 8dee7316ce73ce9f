-- Requests and bytes of the whole fleet by operation, and the rates of its volumes.
SELECT
    op,
    count(*) AS volumes,
    CAST(sum(requests) AS BIGINT) AS requests,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    sum(requests_per_s) AS requests_per_s,
    sum(bytes_per_s) AS bytes_per_s,
    percentile_cont(5e-1) WITHIN GROUP (ORDER BY requests_per_s) AS requests_per_s_p50,
    percentile_cont(9e-1) WITHIN GROUP (ORDER BY requests_per_s) AS requests_per_s_p90,
    max(requests_per_s) AS requests_per_s_max
FROM operations
GROUP BY op;
