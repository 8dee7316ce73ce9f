-- Requests by the depth that was recorded with them; more than 1,024 count as that. analyze: the shares of requests in
-- report.depths[0].histogram. Depths that follow from latencies are analyze's.
WITH counts AS (
    SELECT volume, least(depth, 1024) AS depth, count(*) AS requests
    FROM requests
    WHERE depth IS NOT NULL
    GROUP BY volume, least(depth, 1024)
)
SELECT
    *,
    CAST(requests AS DOUBLE) / CAST(sum(requests) OVER (PARTITION BY volume) AS DOUBLE) AS share,
    CAST(sum(requests) OVER (PARTITION BY volume ORDER BY depth) AS BIGINT) AS up_to
FROM counts;
