-- Accesses of blocks of 4 KiB. analyze: report.block_accesses. They are what the miss ratios of a volume weigh in the fleet's.
SELECT
    volume,
    CAST(sum(((offset_bytes + size_bytes + 4095) >> 12) - (offset_bytes >> 12)) AS BIGINT) AS block_accesses,
    CAST(sum(CASE WHEN op = 'read' THEN ((offset_bytes + size_bytes + 4095) >> 12) - (offset_bytes >> 12) ELSE 0 END) AS BIGINT)
        AS block_reads,
    CAST(sum(CASE WHEN op = 'write' THEN ((offset_bytes + size_bytes + 4095) >> 12) - (offset_bytes >> 12) ELSE 0 END) AS BIGINT)
        AS block_writes
FROM requests
WHERE direction IS NOT NULL
GROUP BY volume;
