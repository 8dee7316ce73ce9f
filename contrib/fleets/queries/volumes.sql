-- One row a volume: what was read of it. analyze: faults.count, report.absurd, report.duration_ns; `requests` there counts the absurd too.
SELECT
    volume,
    count(*) AS trace_rows,
    count(CASE WHEN is_fault THEN 1 END) AS faults,
    count(CASE WHEN NOT is_fault AND is_absurd THEN 1 END) AS absurd,
    count(CASE WHEN NOT is_fault AND NOT is_absurd THEN 1 END) AS requests,
    max(CASE WHEN NOT is_fault AND NOT is_absurd THEN issued_ns END)
        - min(CASE WHEN NOT is_fault AND NOT is_absurd THEN issued_ns END) AS duration_ns,
    count(issued_ns) AS with_issued_ns,
    count(op) AS with_op,
    count(offset_bytes) AS with_offset_bytes,
    count(size_bytes) AS with_size_bytes
FROM judged
GROUP BY volume;
