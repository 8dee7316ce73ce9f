-- Writes by what the kernel and the writer said of them: the classes of the PRISM that a request carries itself. analyze --by hint:
-- report.rows. Reads belong to who last wrote what they read, and other classes follow from behaviour: both need a memory of each block
-- (analyze).
--
-- Where no request of a volume has a lifetime it is not known of any; else those without one have none set.
WITH known AS (
    SELECT *, count(lifetime) OVER (PARTITION BY volume) > 0 AS tells_lifetimes
    FROM requests
),
named AS (
    SELECT
        volume,
        size_bytes,
        CASE
            WHEN (flags & 16) <> 0 THEN 'swap'
            WHEN (flags & 1) <> 0 THEN 'metadata'
            WHEN tells_lifetimes THEN 'lifetime ' || coalesce(lifetime, 'not-set')
            ELSE 'not known'
        END AS hint
    FROM known
    WHERE direction = 'write'
),
counts AS (
    SELECT volume, hint, count(*) AS writes, CAST(sum(size_bytes) AS BIGINT) AS written_bytes
    FROM named
    GROUP BY volume, hint
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER (PARTITION BY volume) AS DOUBLE), 0e0) AS alpha
FROM counts;
