-- Writes and reads by process. analyze --by process: report.rows.
WITH named AS (
    SELECT volume, direction, size_bytes, coalesce(nullif(process, ''), 'not known') AS process
    FROM requests
    WHERE direction IS NOT NULL
),
counts AS (
    SELECT
        volume,
        process,
        count(CASE WHEN direction = 'write' THEN 1 END) AS writes,
        CAST(sum(CASE WHEN direction = 'write' THEN size_bytes ELSE 0 END) AS BIGINT) AS written_bytes,
        count(CASE WHEN direction = 'read' THEN 1 END) AS reads,
        CAST(sum(CASE WHEN direction = 'read' THEN size_bytes ELSE 0 END) AS BIGINT) AS read_bytes
    FROM named
    GROUP BY volume, process
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER (PARTITION BY volume) AS DOUBLE), 0e0) AS alpha
FROM counts;
