-- Requests and bytes by size: powers of two, `up_to_bytes` included. A finer form of what analyze gives as quantiles (spreads.sql).
WITH sized AS (
    SELECT
        volume,
        op,
        size_bytes,
        CASE WHEN size_bytes <= 1 THEN size_bytes ELSE CAST(1 AS BIGINT) << length(bin(size_bytes - 1)) END AS up_to_bytes
    FROM requests
)
SELECT volume, op, up_to_bytes, count(*) AS requests, CAST(sum(size_bytes) AS BIGINT) AS bytes
FROM sized
GROUP BY volume, op, up_to_bytes;
