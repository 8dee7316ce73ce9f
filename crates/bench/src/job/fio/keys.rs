//! fio's keys and what becomes of each.

/// What a key is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Read by the conversion.
    Used,
    /// Names files or disks: `--target` does.
    Target,
    /// About fio's output, memory or processes: nothing that is measured depends on it.
    Silent,
    /// Not done here; said in a note.
    Note,
    /// Not done here, and something else would be measured without it. `0` and `none` are accepted.
    Refused,
}

/// Other names of keys.
const ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("blockalign", "ba"),
    ("wait_for_previous", "stonewall"),
    ("timeout", "runtime"),
    ("io_limit", "io_size"),
    ("fileoffset", "offset"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("nr_files", "nrfiles"),
    ("rate_min", "ratemin"),
    ("fill_fs", "fill_device"),
    ("iomem", "mem"),
    ("iomem_align", "mem_align"),
    ("disable_bw_measurement", "disable_bw"),
    ("exitall_on_error", "exitall"),
    ("rate_cycle", "ratecycle"),
    // fio accepts this one without naming it; its examples have it.
    ("threads", "thread"),
];

const USED: &[&str] = &[
    "name",
    "rw",
    "rw_sequencer",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bsrange",
    "bssplit",
    "bs_unaligned",
    "ba",
    "iodepth",
    "iodepth_batch",
    "ioengine",
    "hipri",
    "direct",
    "sync",
    "fsync",
    "fdatasync",
    "size",
    "io_size",
    "filesize",
    "nrfiles",
    "offset",
    "offset_increment",
    "number_ios",
    "runtime",
    "time_based",
    "ramp_time",
    "startdelay",
    "rate",
    "rate_iops",
    "rate_process",
    "io_submit_mode",
    "thinktime",
    "thinktime_blocks",
    "thinktime_spin",
    "norandommap",
    "random_distribution",
    "percentage_random",
    "randrepeat",
    "allrandrepeat",
    "randseed",
    "cpus_allowed",
    "cpumask",
    "cpus_allowed_policy",
    "verify",
    "verify_only",
    "do_verify",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "zero_buffers",
    "loops",
    "numjobs",
    "stonewall",
    "wait_for",
    "kb_base",
    "end_fsync",
    "fsync_on_close",
    "percentage_sequential",
    "exitall",
    "new_group",
    "random_generator",
    "thinktime_iotime",
];

const TARGET: &[&str] = &[
    "filename",
    "directory",
    "filename_format",
    "opendir",
    "uri",
    "hostname",
    "port",
    "unique_filename",
    "filetype",
    "allow_file_create",
    "file_service_type",
    "openfiles",
    "lockfile",
    "allow_mounted_write",
];

const SILENT: &[&str] = &[
    "description",
    "group_reporting",
    "thread",
    "refill_buffers",
    "scramble_buffers",
    "percentile_list",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_max_value",
    "log_window_value",
    "log_offset",
    "log_compression",
    "log_compression_cpus",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "job_start_clock_id",
    "log_prio",
    "log_issue_time",
    "log_entries",
    "per_job_logs",
    "bwavgtime",
    "iopsavgtime",
    "gtod_reduce",
    "gtod_cpu",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw",
    "clocksource",
    "unified_rw_reporting",
    "block_error_percentiles",
    "significant_figures",
    "disk_util",
    "stats",
    "unit_base",
    "mem",
    "mem_align",
    "lockmem",
    "softrandommap",
    "fixedbufs",
    "registerfiles",
    "nonvectored",
    "userspace_reap",
    "libaio_vectored",
    "create_serialize",
    "create_on_open",
    "create_only",
    "create_fsync",
    "fallocate",
    "overwrite",
    "unlink",
    "unlink_each_loop",
    "fadvise_hint",
    "invalidate",
    "error_dump",
    "verify_dump",
    "verify_state_save",
    "verify_async",
    "verify_async_cpus",
    "pre_read",
];

const NOTE: &[&str] = &[
    "iodepth_low",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "force_async",
    "nowait",
    "uncached",
    "hipri_percentage",
    "cmdprio_percentage",
    "cmdprio",
    "cmdprio_class",
    "cmdprio_hint",
    "cmdprio_bssplit",
    "prio",
    "prioclass",
    "priohint",
    "nice",
    "atomic",
    "write_barrier",
    "sync_file_range",
    "end_syncfs",
    "ratemin",
    "rate_iops_min",
    "ratecycle",
    "rate_ignore_thinktime",
    "thinkcycles",
    "thinktime_blocks_type",
    "rwmixcycle",
    "serialize_overlap",
    "max_latency",
    "latency_run",
    "exit_what",
    "continue_on_error",
    "ignore_error",
    "exec_prerun",
    "exec_postrun",
    "ioscheduler",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "cgroup",
    "cgroup_weight",
    "cgroup_nodelete",
    "uid",
    "gid",
    "flow_id",
    "flow_sleep",
    "flow_watermark",
    "fill_device",
    "offset_align",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "dedupe_global",
    "buffer_compress_chunk",
    "buffer_pattern",
    "verify_interval",
    "verify_offset",
    "verify_pattern",
    "verify_pattern_interval",
    "verify_fatal",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_header_seed",
    "verify_write_sequence",
    "verifysort",
    "write_hint",
    "write_iolog",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "steadystate_check_interval",
    "ss",
    "ss_dur",
    "ss_ramp",
    "ss_interval",
    "trim_percentage",
    "trim_verify_zero",
    "trim_backlog",
    "trim_backlog_batch",
    "experimental_verify",
    "verify_state_load",
    "verifysort_nr",
    "verify_policy",
    "replay_no_stall",
    "replay_scale",
    "replay_skip",
    "file_append",
];

const REFUSED: &[&str] = &[
    "zonemode",
    "zonesize",
    "zonerange",
    "zonecapacity",
    "zoneskip",
    "max_open_zones",
    "job_max_open_zones",
    "read_beyond_wp",
    "zone_reset_threshold",
    "zone_reset_frequency",
    "write_zone_remainder",
    "read_iolog",
    "read_iolog_chunked",
    "replay_redirect",
    "replay_align",
    "replay_time_scale",
    "merge_blktrace_file",
    "profile",
    "flow",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "sprandom",
    "spr_op",
    "spr_num_regions",
    "spr_cs",
    "fdp",
    "fdp_pli",
    "dataplacement",
    "bs_is_seq_rand",
    "random_sequence_stride",
    "ramp_size",
    "cuda_io",
    "ignore_zone_limits",
];

/// The class of a key; `None` where fio has no such key (or only for an engine that is not supported).
pub fn class(key: &str) -> Option<Class> {
    let classes = [
        (Class::Used, USED),
        (Class::Target, TARGET),
        (Class::Silent, SILENT),
        (Class::Note, NOTE),
        (Class::Refused, REFUSED),
    ];
    classes.into_iter().find(|(_, keys)| keys.contains(&key)).map(|(class, _)| class)
}

/// All names, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    let aliases = ALIASES.iter().map(|&(alias, _)| alias);
    [USED, TARGET, SILENT, NOTE, REFUSED].into_iter().flatten().copied().chain(aliases)
}

/// The one name of a key that has several. `buffered` is `direct` the other way round.
pub fn canonical(key: &str, value: Option<String>) -> (String, Option<String>) {
    if key == "buffered" {
        let direct = match value.as_deref() {
            None | Some("1") => "0",
            Some("0") => "1",
            Some(other) => return ("direct".to_owned(), Some(other.to_owned())),
        };
        return ("direct".to_owned(), Some(direct.to_owned()));
    }
    let key = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |&(_, name)| name);
    (key.to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_class() {
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a key is named twice");
        for &(alias, name) in ALIASES {
            assert!(class(alias).is_none() && class(name).is_some(), "{alias} {name}");
        }
    }

    #[test]
    fn other_names_are_the_same_key() {
        assert_eq!(canonical("readwrite", None).0, "rw");
        assert_eq!(canonical("buffered", Some("0".into())), ("direct".into(), Some("1".into())));
        assert_eq!(canonical("buffered", None), ("direct".into(), Some("0".into())));
    }
}
