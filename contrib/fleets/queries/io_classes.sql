-- Writes and reads by the class that the trace gives. analyze --by io-class: report.rows.
WITH named AS (
    SELECT volume, direction, size_bytes, coalesce('class ' || CAST(io_class AS VARCHAR(10)), 'none') AS io_class
    FROM requests
    WHERE direction IS NOT NULL
),
counts AS (
    SELECT
        volume,
        io_class,
        count(CASE WHEN direction = 'write' THEN 1 END) AS writes,
        CAST(sum(CASE WHEN direction = 'write' THEN size_bytes ELSE 0 END) AS BIGINT) AS written_bytes,
        count(CASE WHEN direction = 'read' THEN 1 END) AS reads,
        CAST(sum(CASE WHEN direction = 'read' THEN size_bytes ELSE 0 END) AS BIGINT) AS read_bytes
    FROM named
    GROUP BY volume, io_class
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER (PARTITION BY volume) AS DOUBLE), 0e0) AS alpha
FROM counts;
