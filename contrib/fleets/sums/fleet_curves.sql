-- Miss ratios and alpha of the fleet where each volume has a tier of its own: of `percent` of what it accesses, or of `size_bytes`, and where
-- that is more than it accesses, what all of it gives. The ratio of all is that of their blocks together; quantiles are over volumes.
WITH points AS (
    SELECT DISTINCT percent, CASE WHEN percent IS NULL THEN size_bytes END AS size_bytes
    FROM curves
),
whole AS (
    SELECT volume, size_bytes, miss_ratio, read_miss_ratio, alpha
    FROM curves
    WHERE percent = 100
),
of_volumes AS (
    SELECT
        points.percent,
        points.size_bytes,
        whole.volume,
        coalesce(points.size_bytes, found.size_bytes) AS tier_bytes,
        CASE WHEN found.volume IS NULL THEN whole.miss_ratio ELSE found.miss_ratio END AS miss_ratio,
        CASE WHEN found.volume IS NULL THEN whole.read_miss_ratio ELSE found.read_miss_ratio END AS read_miss_ratio,
        CASE WHEN found.volume IS NULL THEN whole.alpha ELSE found.alpha END AS alpha
    FROM points
    CROSS JOIN whole
    LEFT JOIN curves AS found
        ON found.volume = whole.volume
        AND (found.percent = points.percent OR (found.percent IS NULL AND found.size_bytes = points.size_bytes))
)
SELECT
    percent,
    size_bytes,
    count(*) AS volumes,
    CAST(sum(tier_bytes) AS BIGINT) AS tier_bytes,
    sum(miss_ratio * block_accesses) / nullif(CAST(sum(CASE WHEN miss_ratio IS NULL THEN 0 ELSE block_accesses END) AS DOUBLE), 0e0)
        AS miss_ratio,
    percentile_cont(1e-1) WITHIN GROUP (ORDER BY miss_ratio) AS miss_ratio_p10,
    percentile_cont(5e-1) WITHIN GROUP (ORDER BY miss_ratio) AS miss_ratio_p50,
    percentile_cont(9e-1) WITHIN GROUP (ORDER BY miss_ratio) AS miss_ratio_p90,
    sum(read_miss_ratio * block_reads) / nullif(CAST(sum(CASE WHEN read_miss_ratio IS NULL THEN 0 ELSE block_reads END) AS DOUBLE), 0e0)
        AS read_miss_ratio,
    sum(alpha * block_writes) / nullif(CAST(sum(CASE WHEN alpha IS NULL THEN 0 ELSE block_writes END) AS DOUBLE), 0e0) AS alpha,
    percentile_cont(1e-1) WITHIN GROUP (ORDER BY alpha) AS alpha_p10,
    percentile_cont(5e-1) WITHIN GROUP (ORDER BY alpha) AS alpha_p50,
    percentile_cont(9e-1) WITHIN GROUP (ORDER BY alpha) AS alpha_p90
FROM of_volumes
JOIN blocks ON blocks.volume = of_volumes.volume
GROUP BY percent, size_bytes;
