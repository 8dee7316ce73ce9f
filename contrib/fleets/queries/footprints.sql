-- Bytes of the blocks of 4 KiB that were accessed, and written, at least once. analyze: report.footprint_bytes and
-- report.written_footprint_bytes where nothing is discarded (`discards` is 0); else these are bounds: there what is discarded is forgotten.
WITH accessed AS (
    SELECT
        volume,
        CASE WHEN op = 'write' THEN 1 ELSE 0 END AS is_written,
        explode(sequence(offset_bytes >> 12, (offset_bytes + size_bytes - 1) >> 12)) AS block
    FROM requests
    WHERE direction IS NOT NULL
),
distinct_blocks AS (
    SELECT volume, block, max(is_written) AS is_written
    FROM accessed
    GROUP BY volume, block
),
footprints AS (
    SELECT volume, count(*) * 4096 AS accessed_bytes, CAST(sum(is_written) * 4096 AS BIGINT) AS written_bytes
    FROM distinct_blocks
    GROUP BY volume
),
discarded AS (
    SELECT volume, count(*) AS discards
    FROM requests
    WHERE op IN ('discard', 'write-zeroes') AND size_bytes > 0
    GROUP BY volume
)
SELECT footprints.volume, accessed_bytes, written_bytes, coalesce(discards, 0) AS discards
FROM footprints
LEFT JOIN discarded ON footprints.volume = discarded.volume;
