-- Writes and reads by who wrote, or by what the trace says of the file. analyze --by ...: report.rows. One query for each of the values in
-- WRITERS of fleet.py, in the place of {name}, {value} and {none}.
WITH named AS (
    SELECT volume, direction, size_bytes, coalesce({value}, {none}) AS {name}
    FROM requests
    WHERE direction IS NOT NULL
),
counts AS (
    SELECT
        volume,
        {name},
        count(CASE WHEN direction = 'write' THEN 1 END) AS writes,
        CAST(sum(CASE WHEN direction = 'write' THEN size_bytes ELSE 0 END) AS BIGINT) AS written_bytes,
        count(CASE WHEN direction = 'read' THEN 1 END) AS reads,
        CAST(sum(CASE WHEN direction = 'read' THEN size_bytes ELSE 0 END) AS BIGINT) AS read_bytes
    FROM named
    GROUP BY volume, {name}
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER (PARTITION BY volume) AS DOUBLE), 0e0) AS alpha
FROM counts;
