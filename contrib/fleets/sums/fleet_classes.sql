-- The table "workload through the PRISM" of the whole fleet: what the rows of that name and letter wrote, read and occupied in all volumes.
WITH rows_of_all AS (
    SELECT
        name,
        letter,
        count(*) AS volumes,
        CAST(sum(occupancy_bytes) AS BIGINT) AS occupancy_bytes,
        CAST(sum(written_bytes) AS BIGINT) AS written_bytes,
        CAST(sum(read_bytes) AS BIGINT) AS read_bytes
    FROM classes
    GROUP BY name, letter
)
SELECT
    *,
    CAST(written_bytes AS DOUBLE) / nullif(CAST(sum(written_bytes) OVER () AS DOUBLE), 0e0) AS alpha,
    CAST(written_bytes AS DOUBLE) / nullif(occupancy_bytes, 0) AS beta
FROM rows_of_all;
