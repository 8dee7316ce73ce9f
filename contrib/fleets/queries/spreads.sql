-- Count, mean, quantiles and maximum. analyze: report.reads.sizes and report.writes.sizes (kind size_bytes), report.gaps_ns (gap_ns),
-- report.flush_ns and, by volume, the latencies of reads and writes (latency_ns).
--
-- Quantiles are those of analyze's buckets, 128 for each octave: a value of n bits lies in the bucket whose last value has the lowest n - 8
-- bits set. Those of sizes are sizes, where there are no more than 4096 different ones.
WITH measured AS (
    SELECT volume, 'size_bytes' AS kind, direction AS series, size_bytes AS value
    FROM requests
    WHERE direction IS NOT NULL
    UNION ALL
    SELECT volume, 'latency_ns' AS kind, coalesce(direction, op) AS series, latency_ns AS value
    FROM requests
    WHERE latency_ns IS NOT NULL AND (direction IS NOT NULL OR op = 'flush')
    UNION ALL
    SELECT
        volume,
        'gap_ns' AS kind,
        'all' AS series,
        issued_ns - lag(issued_ns) OVER (PARTITION BY volume ORDER BY issued_ns) AS value
    FROM requests
),
counted AS (
    SELECT
        volume,
        kind,
        series,
        value,
        count(*) AS weight,
        count(*) OVER (PARTITION BY volume, kind, series) AS different
    FROM measured
    WHERE value IS NOT NULL
    GROUP BY volume, kind, series, value
),
placed AS (
    SELECT
        *,
        CASE
            WHEN kind = 'size_bytes' AND different <= 4096 THEN value
            ELSE value | ((CAST(1 AS BIGINT) << greatest(length(bin(value)) - 8, 0)) - 1)
        END AS bucket_end
    FROM counted
),
buckets AS (
    SELECT
        volume,
        kind,
        series,
        bucket_end,
        sum(weight) AS weight,
        sum(value * weight) AS total,
        max(value) AS largest
    FROM placed
    GROUP BY volume, kind, series, bucket_end
),
ranked AS (
    SELECT
        *,
        CAST(sum(weight) OVER (PARTITION BY volume, kind, series ORDER BY bucket_end) AS DOUBLE) AS below,
        CAST(sum(weight) OVER (PARTITION BY volume, kind, series) AS DOUBLE) AS weights
    FROM buckets
)
SELECT
    volume,
    kind,
    series,
    CAST(sum(weight) AS BIGINT) AS count,
    CAST(sum(total) AS DOUBLE) / CAST(sum(weight) AS DOUBLE) AS mean,
    least(min(CASE WHEN below >= 5e-1 * weights THEN bucket_end END), max(largest)) AS p50,
    least(min(CASE WHEN below >= 9e-1 * weights THEN bucket_end END), max(largest)) AS p90,
    least(min(CASE WHEN below >= 9.9e-1 * weights THEN bucket_end END), max(largest)) AS p99,
    least(min(CASE WHEN below >= 9.99e-1 * weights THEN bucket_end END), max(largest)) AS p99_9,
    max(largest) AS max
FROM ranked
GROUP BY volume, kind, series;
