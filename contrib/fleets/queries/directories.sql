-- Writes and reads by the directory of the file. analyze --by directory: report.rows.
WITH named AS (
    SELECT volume, direction, size_bytes, coalesce(nullif(regexp_extract(path, '(?s)^(.*)/[^/]*$', 1), ''), 'not known') AS directory
    FROM requests
    WHERE direction IS NOT NULL
),
counts AS (
    SELECT
        volume,
        directory,
        count(CASE WHEN direction = 'write' THEN 1 END) AS writes,
        CAST(sum(CASE WHEN direction = 'write' THEN size_bytes ELSE 0 END) AS BIGINT) AS written_bytes,
        count(CASE WHEN direction = 'read' THEN 1 END) AS reads,
        CAST(sum(CASE WHEN direction = 'read' THEN size_bytes ELSE 0 END) AS BIGINT) AS read_bytes
    FROM named
    GROUP BY volume, directory
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER (PARTITION BY volume) AS DOUBLE), 0e0) AS alpha
FROM counts;
