-- Shares of requests whose offset and length are multiples of 4 KiB, or of 512 bytes only. analyze: report.reads and report.writes,
-- aligned_4k and aligned_512.
WITH aligned AS (
    SELECT volume, direction, (offset_bytes | size_bytes) % 4096 = 0 AS is_4k, (offset_bytes | size_bytes) % 512 = 0 AS is_512
    FROM requests
    WHERE direction IS NOT NULL
)
SELECT
    volume,
    direction,
    count(*) AS requests,
    CAST(count(CASE WHEN is_4k THEN 1 END) AS DOUBLE) / count(*) AS aligned_4k,
    CAST(count(CASE WHEN is_512 AND NOT is_4k THEN 1 END) AS DOUBLE) / count(*) AS aligned_512
FROM aligned
GROUP BY volume, direction;
