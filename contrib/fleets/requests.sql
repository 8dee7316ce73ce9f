-- The rows of all volumes, `trace`, as `forebay analyze` takes them.
--
-- A row is a fault where a value that must be there is null or negative, an operation or a lifetime is none that is known, or another
-- value is out of range. It is absurd beyond 64 PiB or with more than 1 GiB, unless it only gives or takes a range.
CREATE OR REPLACE TEMPORARY VIEW judged AS
WITH plain AS (
    SELECT
        coalesce(volume, '(no volume)') AS volume,
        CAST(issued_ns AS BIGINT) AS issued_ns,
        lower(op) AS op,
        CAST(offset_bytes AS BIGINT) AS offset_bytes,
        CAST(size_bytes AS BIGINT) AS size_bytes,
        CAST(latency_ns AS BIGINT) AS latency_ns,
        CAST(queued_ns AS BIGINT) AS queued_ns,
        lower(lifetime) AS lifetime,
        CAST(flags AS BIGINT) AS flags,
        CAST(depth AS BIGINT) AS depth,
        CAST(io_class AS BIGINT) AS io_class,
        process,
        path
    FROM trace
)
SELECT
    *,
    NOT (
        coalesce(issued_ns >= 0, false) AND coalesce(offset_bytes >= 0, false) AND coalesce(size_bytes >= 0, false)
        AND coalesce(op IN ('read', 'write', 'discard', 'write-zeroes', 'flush', 'access'), false)
        AND coalesce(lifetime IN ('not-set', 'none', 'short', 'medium', 'long', 'extreme'), true)
        AND coalesce(latency_ns >= -1, true) AND coalesce(queued_ns >= -1, true)
        AND coalesce(flags BETWEEN 0 AND 65535, true) AND coalesce(depth BETWEEN 0 AND 65535, true)
        AND coalesce(io_class BETWEEN 0 AND 65535, true)
    ) AS is_fault,
    NOT (
        offset_bytes <= 72057594037927936 AND size_bytes <= 72057594037927936 - offset_bytes
        AND (op IN ('discard', 'write-zeroes') OR size_bytes <= 67108864)
    ) AS is_absurd
FROM plain;

-- What is left, with what is not known as null. `direction` is that of the requests that move data.
CREATE OR REPLACE TEMPORARY VIEW requests AS
SELECT
    volume,
    issued_ns,
    op,
    CASE WHEN size_bytes = 0 THEN NULL WHEN op = 'write' THEN 'write' WHEN op IN ('read', 'access') THEN 'read' END
        AS direction,
    offset_bytes,
    size_bytes,
    nullif(latency_ns, -1) AS latency_ns,
    lifetime,
    coalesce(flags, 0) AS flags,
    nullif(depth, 0) AS depth,
    nullif(io_class, 65535) AS io_class,
    process,
    path
FROM judged
WHERE NOT is_fault AND NOT is_absurd;
