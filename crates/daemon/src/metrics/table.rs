//! Which figures of a status become metrics, and their names. Names follow Prometheus's conventions
//! (prometheus.io/docs/practices/naming): base units, units last, `_total` for counters, which the client library
//! adds.

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, and begins at zero after a restart.
    Counter,
    /// May rise and fall.
    Gauge,
}

/// Conversion of a figure to base units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// The figure is in base units already.
    One,
    /// Blocks of 4 KiB to bytes.
    Blocks,
    /// Nanoseconds to seconds.
    Nanoseconds,
    /// Years to seconds.
    Years,
}

/// A metric, and where its figure lies in an entry of its section.
pub struct Metric {
    pub kind: Kind,
    pub name: &'static str,
    pub help: &'static str,
    /// Place of the figure in the entry, as a JSON pointer (RFC 6901).
    pub pointer: &'static str,
    pub scale: Scale,
}

/// Metrics of one part of a status: of the whole status, or of each entry of a list, distinguished by a label.
pub struct Section {
    /// The list, and the label that carries the name of each entry; `None` for the whole status.
    pub each: Option<(&'static str, &'static str)>,
    pub metrics: &'static [Metric],
}

const fn gauge(name: &'static str, pointer: &'static str, help: &'static str) -> Metric {
    Metric { kind: Kind::Gauge, name, help, pointer, scale: Scale::One }
}

const fn counter(name: &'static str, pointer: &'static str, help: &'static str) -> Metric {
    Metric { kind: Kind::Counter, name, help, pointer, scale: Scale::One }
}

const fn scaled(metric: Metric, scale: Scale) -> Metric {
    Metric { scale, ..metric }
}

/// All sections. A label has as many values as the pool has tiers, devices, classes, disks or exports.
pub const SECTIONS: [Section; 7] = [
    Section { each: None, metrics: POOL },
    Section { each: Some(("tiers", "tier")), metrics: TIERS },
    Section { each: Some(("wear", "tier")), metrics: WEAR },
    Section { each: Some(("devices", "device")), metrics: DEVICES },
    Section { each: Some(("classes", "class")), metrics: CLASSES },
    Section { each: Some(("disks", "disk")), metrics: DISKS },
    Section { each: Some(("exports", "export")), metrics: EXPORTS },
];

const POOL: &[Metric] = &[
    gauge("uptime_seconds", "/uptime_seconds", "Time since the server began"),
    gauge("pool_read_only", "/pool/read_only", "1 where the pool takes no writes"),
    gauge(
        "pool_flush_failed",
        "/pool/flush_failed",
        "1 from a failed device flush until what it covered was written again",
    ),
    gauge(
        "pool_fill_ratio",
        "/pool/fill",
        "Live data as a part of what disks can be promised; above 1 where overcommit lets in more",
    ),
    gauge(
        "pool_usable_bytes",
        "/pool/usable_bytes",
        "What disks can be promised: the capacity tier less what collection needs",
    ),
    gauge("pool_promised_bytes", "/pool/promised_bytes", "Sizes of all disks together"),
    gauge("bands_free", "/bands/free", "Bands of the capacity tier that hold nothing"),
    gauge("bands", "/bands/total", "Bands of the capacity tier"),
    gauge("journal_used_bytes", "/journal/used_bytes", "Journal that recovery would read"),
    gauge("journal_size_bytes", "/journal/len_bytes", "Length of the journal"),
    gauge("memory_limit_bytes", "/memory/limit_bytes", "memory.limit of the configuration"),
    gauge("memory_resident_bytes", "/memory/resident_bytes", "Resident memory of the server"),
    gauge("map_leaves_resident", "/memory/leaves_resident", "Leaves of the map in memory"),
    gauge("map_leaves_limit", "/memory/leaves_limit", "Most leaves of the map that may be in memory"),
    gauge("requests_in_flight", "/requests_in_flight", "Host requests in progress"),
    gauge("connections", "/server/connections", "Connections of clients"),
    counter("connections_accepted", "/server/accepted", "Connections accepted"),
    counter("connections_refused", "/server/refused", "Connections refused for server.max_connections"),
    counter("protocol_errors", "/server/protocol_errors", "Connections ended for a breach of the protocol"),
    gauge("recovery_duration_seconds", "/recovery/seconds", "How long the last start took to recover the pool"),
    counter("request_errors", "/counters/request_errors", "Host requests answered with an error"),
    counter("stalls", "/counters/stalls", "Times that a write waited for space or for the journal"),
    counter("map_misses", "/counters/map_misses", "Leaves of the map read because they were not in memory"),
    counter("damaged_pages", "/counters/damaged_pages", "Pages of the map that did not match their checksums"),
    counter(
        "damaged_reads",
        "/counters/damaged_reads",
        "Host reads that met data that did not match its checksum, or is lost",
    ),
    counter("damaged_moves", "/counters/damaged_moves", "Blocks found damaged when they were to be moved"),
    gauge("mirror_members_out", "/mirror/members_out", "Members of the fast tier's mirror that do not hold everything"),
    gauge(
        "parity_members_out",
        "/parity/members_out",
        "Members of a capacity tier with parity that do not hold everything",
    ),
    gauge(
        "parity_settling",
        "/parity/settling",
        "Whether writes to a capacity tier with parity wait until its log is made good, after a failed flush most of all",
    ),
    gauge(
        "parity_unreadable_blocks",
        "/parity/unreadable_blocks",
        "Blocks of a capacity tier with parity that no member, and no parity, could give",
    ),
    gauge(
        "parity_rows_in_doubt",
        "/parity/rows_in_doubt",
        "Rows of a capacity tier with parity written beside a block of which parity says otherwise",
    ),
    scaled(
        counter(
            "mended_bytes",
            "/counters/mended_blocks",
            "Wrong on one member of a mirror, or of a tier with parity, and written again from others",
        ),
        Scale::Blocks,
    ),
    scaled(
        counter(
            "mirror_reread_bytes",
            "/mirror/reread_blocks",
            "What one member of the fast tier's mirror could not read, and was written again from others",
        ),
        Scale::Blocks,
    ),
    scaled(
        counter(
            "parity_reread_bytes",
            "/parity/reread_blocks",
            "What one member of a capacity tier with parity could not read, and was written again from others",
        ),
        Scale::Blocks,
    ),
    counter(
        "parity_unfit_bands",
        "/counters/unfit_bands",
        "Bands of which a scrub found parity of something else, or could not read it, and whose data is written anew for it",
    ),
    gauge(
        "scrub_uncompared_bytes",
        "/scrub/uncompared_bytes",
        "Parity that the last scrub could not compare, as members did not answer",
    ),
    gauge("scrub_damaged_bytes", "/scrub/damaged_bytes", "Found by the last scrub to be damaged or unreadable"),
    gauge("read_cache_bytes", "/read_cache/held_bytes", "Copies of the capacity tier's data on the fast tier"),
    gauge("read_cache_kept_bytes", "/read_cache/kept_bytes", "Space of the fast tier that is kept for copies"),
    counter("read_cache_hit_bytes", "/read_cache/hit_bytes", "Data of the capacity tier read from copies"),
    gauge("read_cache_memory_bytes", "/read_cache/memory_held_bytes", "Data of the capacity tier in memory"),
    counter(
        "read_cache_memory_hit_bytes",
        "/read_cache/memory_hit_bytes",
        "Data of the capacity tier read from memory",
    ),
    counter(
        "read_cache_missed_bytes",
        "/read_cache/missed_bytes",
        "Data of the capacity tier read there, of classes with a read cache",
    ),
    counter("read_cache_written_bytes", "/read_cache/written_bytes", "Copies written"),
    counter("read_ahead_bytes", "/counters/ahead_read_bytes", "Read ahead of who reads in sequence"),
    counter("read_ahead_used_bytes", "/counters/ahead_used_bytes", "Read ahead, and asked for later"),
    scaled(
        counter(
            "spilled_bytes",
            "/counters/spilled_blocks",
            "Went to the capacity tier because their class had used its share",
        ),
        Scale::Blocks,
    ),
    counter("journal_written_bytes", "/counters/journal_bytes", "Written to the journal"),
    counter("map_written_bytes", "/counters/map_bytes", "Map pages and roots written to the fast tier"),
    counter(
        "capacity_side_written_bytes",
        "/counters/capacity_side_bytes",
        "Written to the capacity tier so that it can be opened alone",
    ),
    counter("flushes", "/counters/flushes", "Flushes sent to devices"),
    counter("flush_errors", "/counters/flush_errors", "Flushes that failed"),
    scaled(
        counter("flush_lost_bytes", "/counters/flush_lost_blocks", "Lost by failed flushes: reads of it fail"),
        Scale::Blocks,
    ),
    counter("checkpoints", "/counters/checkpoints", "Checkpoints made durable"),
    counter("checkpoint_errors", "/counters/checkpoint_errors", "Checkpoints given up"),
    // promtool's linter would take the word "summary" for a metric type.
    counter("band_index_errors", "/counters/summary_errors", "Band summaries that could not be written or read"),
    counter("trim_errors", "/counters/trim_errors", "Trims that failed"),
    counter("migration_errors", "/counters/migration_errors", "Destage and garbage collection jobs that failed"),
];

const TIERS: &[Metric] = &[
    gauge("tier_size_bytes", "/total_bytes", "Space for data and map"),
    gauge("tier_used_bytes", "/used_bytes", "In use; on the capacity tier, in bands that are not free"),
    gauge("tier_live_bytes", "/live_bytes", "Named by the map"),
];

const WEAR: &[Metric] = &[
    counter("tier_written_bytes", "/written_bytes", "Written to the tier over the pool's life"),
    gauge(
        "tier_endurance_bytes",
        "/endurance_bytes",
        "What may be written to the tier over its life, where configured",
    ),
    scaled(
        gauge("tier_life_left_seconds", "/years_left", "When the tier is worn out at the rate since the start"),
        Scale::Years,
    ),
];

const DEVICES: &[Metric] = &[
    counter("device_reads", "/reads/requests", "Reads that have ended"),
    counter("device_read_bytes", "/reads/bytes", "Read from the device"),
    scaled(
        counter("device_read_time_seconds", "/reads/busy_ns", "Sum of the times that reads took"),
        Scale::Nanoseconds,
    ),
    counter("device_writes", "/writes/requests", "Writes that have ended"),
    counter("device_written_bytes", "/writes/bytes", "Written to the device"),
    scaled(
        counter("device_write_time_seconds", "/writes/busy_ns", "Sum of the times that writes took"),
        Scale::Nanoseconds,
    ),
    counter("device_flushes", "/flushes/requests", "Flushes that have ended"),
    scaled(
        counter("device_flush_time_seconds", "/flushes/busy_ns", "Sum of the times that flushes took"),
        Scale::Nanoseconds,
    ),
    counter("device_discards", "/discards/requests", "Discards that have ended"),
    counter("device_discarded_bytes", "/discards/bytes", "Discarded on the device"),
    counter("device_errors", "/errors", "Requests that failed"),
    scaled(
        gauge("device_unanswered_seconds", "/unanswered_ns", "Age of the oldest request not answered, discards aside"),
        Scale::Nanoseconds,
    ),
];

/// Counted over the life of the pool: these go on after a restart.
const CLASSES: &[Metric] = &[
    counter(
        "class_host_written_bytes",
        "/host_written_bytes",
        "Written by hosts over the pool's life, without blocks of zeros, which take no place",
    ),
    counter("class_bypassed_bytes", "/bypassed_bytes", "Written by hosts past the fast tier"),
    counter("class_destaged_bytes", "/destaged_bytes", "Moved from the fast tier to the capacity tier"),
    counter("class_collected_bytes", "/collected_bytes", "Moved by garbage collection"),
    counter("class_host_read_bytes", "/host_read_bytes", "Read by hosts"),
    counter("class_fast_read_bytes", "/fast_read_bytes", "Read by hosts from the fast tier, or from memory before it"),
    scaled(gauge("class_fast_bytes", "/fast_blocks", "Live on the fast tier"), Scale::Blocks),
    scaled(gauge("class_capacity_bytes", "/capacity_blocks", "Live on the capacity tier"), Scale::Blocks),
    gauge("class_alpha_ratio", "/alpha", "Share of host writes that the fast tier kept from the capacity tier"),
    gauge("class_beta_ratio", "/beta", "Writes of the class by the space that it occupies"),
    gauge("class_hit_ratio", "/hit_ratio", "Share of reads served by the fast tier, or from memory before it"),
];

const DISKS: &[Metric] = &[
    gauge("disk_size_bytes", "/size_bytes", "Size of the disk"),
    gauge("disk_mapped_bytes_max", "/mapped_bytes_max", "Most that the disk can hold of the pool"),
    counter("disk_reads", "/reads/requests", "Reads answered"),
    counter("disk_read_bytes", "/reads/bytes", "Read by hosts"),
    counter("disk_writes", "/writes/requests", "Writes answered"),
    counter("disk_written_bytes", "/writes/bytes", "Written by hosts"),
    counter("disk_flushes", "/flushes/requests", "Flushes answered"),
    counter("disk_discards", "/discards/requests", "Discards and writes of zeroes answered"),
    counter("disk_discarded_bytes", "/discards/bytes", "Discarded by hosts, or written as zeroes"),
];

const EXPORTS: &[Metric] = &[
    gauge("export_connections", "/connections", "Clients of the export"),
    counter("export_reads", "/reads/requests", "Reads that came through the export"),
    counter("export_read_bytes", "/reads/bytes", "Asked for by reads through the export"),
    counter("export_writes", "/writes/requests", "Writes that came through the export"),
    counter("export_written_bytes", "/writes/bytes", "Written through the export"),
    counter("export_flushes", "/flushes/requests", "Flushes that came through the export"),
    counter("export_discards", "/discards/requests", "Discards and writes of zeroes that came through the export"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a count of mended blocks was shown under a name in bytes.
    #[test]
    fn regression_what_is_counted_in_blocks_is_not_shown_as_bytes() {
        for Metric { name, pointer, scale, .. } in SECTIONS.iter().flat_map(|section| section.metrics) {
            let is_in_blocks = pointer.ends_with("_blocks") && name.contains("_bytes");
            assert_eq!(is_in_blocks, *scale == Scale::Blocks, "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_end_as_their_scale_asks() {
        let all: Vec<&Metric> = SECTIONS.iter().flat_map(|section| section.metrics).collect();
        let mut names: Vec<&str> = all.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for Metric { name, scale, .. } in all {
            assert!(!name.ends_with("_total"), "{name}: the library adds it");
            let unit = match scale {
                Scale::One => continue,
                Scale::Blocks => "_bytes",
                Scale::Nanoseconds | Scale::Years => "_seconds",
            };
            assert!(name.ends_with(unit), "{name}");
        }
    }
}
