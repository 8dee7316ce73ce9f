-- Rates over windows of five lengths, from the first request on. analyze: report.bursts.
WITH windows AS (
    SELECT CAST(1000000 AS BIGINT) AS window_ns
    UNION ALL SELECT CAST(10000000 AS BIGINT)
    UNION ALL SELECT CAST(100000000 AS BIGINT)
    UNION ALL SELECT CAST(1000000000 AS BIGINT)
    UNION ALL SELECT CAST(10000000000 AS BIGINT)
),
spans AS (
    SELECT volume, min(issued_ns) AS first_ns, max(issued_ns) - min(issued_ns) AS duration_ns
    FROM requests
    GROUP BY volume
),
-- What a range of zeros or a discard moves is nothing.
moved AS (
    SELECT
        requests.volume,
        spans.duration_ns,
        requests.issued_ns - spans.first_ns AS passed_ns,
        CASE WHEN requests.op IN ('discard', 'write-zeroes') THEN 0 ELSE requests.size_bytes END AS bytes
    FROM requests
    JOIN spans ON requests.volume = spans.volume
),
busy AS (
    SELECT
        volume,
        window_ns,
        max(duration_ns) AS duration_ns,
        quotient(passed_ns, window_ns) AS number,
        count(*) AS requests,
        CAST(sum(bytes) AS BIGINT) AS bytes
    FROM moved
    CROSS JOIN windows
    WHERE window_ns <= greatest(duration_ns, 1)
    GROUP BY volume, window_ns, quotient(passed_ns, window_ns)
),
ranked AS (
    SELECT
        *,
        bytes | ((CAST(1 AS BIGINT) << greatest(length(bin(bytes)) - 8, 0)) - 1) AS bucket_end,
        CAST(count(*) OVER (PARTITION BY volume, window_ns) AS DOUBLE) AS windows_busy,
        CAST(count(*) OVER (
            PARTITION BY volume, window_ns
            ORDER BY bytes | ((CAST(1 AS BIGINT) << greatest(length(bin(bytes)) - 8, 0)) - 1)
        ) AS DOUBLE) AS below
    FROM busy
),
found AS (
    SELECT
        volume,
        window_ns,
        CAST(quotient(max(duration_ns), window_ns) + 1 AS DOUBLE) AS windows_all,
        max(windows_busy) AS windows_busy,
        max(bytes) AS max_bytes,
        least(min(CASE WHEN below >= 9.9e-1 * windows_busy THEN bucket_end END), max(bytes)) AS p99_bytes,
        -- The rate of the whole trace: between so many requests is one gap less, and the last has one too.
        CAST(sum(bytes) AS DOUBLE) * window_ns * greatest(sum(requests) - 1, 1)
            / (CAST(max(duration_ns) AS DOUBLE) * sum(requests)) AS mean_bytes
    FROM ranked
    GROUP BY volume, window_ns
)
SELECT
    volume,
    window_ns,
    windows_busy / windows_all AS busy,
    max_bytes * (1e9 / window_ns) AS max_bytes_per_s,
    p99_bytes * (1e9 / window_ns) AS p99_bytes_per_s,
    CASE WHEN mean_bytes > 0 THEN greatest(max_bytes / mean_bytes, 1e0) ELSE 1e0 END AS max_over_mean
FROM found;
