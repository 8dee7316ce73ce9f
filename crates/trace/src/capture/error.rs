//! Errors of capturing, with what the user can do.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a capture is not possible or failed.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The kernel has no description of its types.
    #[error(
        "this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing: CONFIG_DEBUG_INFO_BTF is off), so its requests cannot be read"
    )]
    NoBtf,
    /// The kernel's description of its types cannot be read.
    #[error("the kernel's types (/sys/kernel/btf/vmlinux) cannot be read")]
    Btf(#[source] aya::BtfError),
    /// The process may not load probes.
    #[error("loading probes into the kernel is not permitted: run as root, or with CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// The kernel is locked down.
    #[error(
        "the kernel is locked down ({mode}, /sys/kernel/security/lockdown), which forbids probes that read kernel memory; it was set at boot (lockdown=, or Secure Boot)"
    )]
    LockedDown {
        /// The mode, as the kernel names it.
        mode: String,
    },
    /// The kernel's `blk` tracer cannot be used.
    #[error("the kernel's tracer \"blk\" (ftrace) cannot be used: {why}")]
    NoFtrace {
        /// The cause.
        why: String,
    },
    /// Neither probes nor the `blk` tracer can be used.
    #[error("neither eBPF ({ebpf}) nor ftrace can be used")]
    Neither {
        /// Why probes cannot be used.
        ebpf: Box<Self>,
        /// Why the tracer cannot be used.
        #[source]
        ftrace: Box<Self>,
    },
    /// Only probes know which process a request belongs to.
    #[error(
        "what processes or control groups ask for is distinguished by eBPF only, not by ftrace: leave out --pid and --cgroup, or --source ftrace"
    )]
    NeedsEbpf,
    /// The kernel refuses the probes.
    #[error("the kernel refuses the probe {probe}")]
    Refused {
        /// Name of the probe.
        probe: &'static str,
        /// Why.
        #[source]
        source: Box<aya::programs::ProgramError>,
    },
    /// The probes cannot be loaded.
    #[error("the probes cannot be loaded")]
    Load(#[source] Box<aya::EbpfError>),
    /// The probes' object lacks a part that it must have.
    #[error("the probes' object has no {what}: Forebay was built wrongly")]
    Object {
        /// The missing part.
        what: &'static str,
    },
    /// A map of the probes cannot be used.
    #[error("the probes' {what} cannot be used")]
    Map {
        /// Name of the map.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<aya::maps::MapError>,
    },
    /// The named thing is no block device and leads to none.
    #[error("{name}: {why}")]
    Target {
        /// The name that was given.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// More disks than the probes can watch.
    #[error("{count} disks at once are too many: at most {max}")]
    TooManyDisks {
        /// Number of disks.
        count: usize,
        /// Most allowed.
        max: usize,
    },
    /// A file of the system cannot be read.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The capture file cannot be created.
    #[error("{path}: cannot be created{}", taken(source))]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The capture file cannot be written.
    #[error("{path}: cannot be written; what was written before is readable")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The mounts cannot be read.
    #[error("the mounts cannot be read")]
    Mounts(#[from] crate::files::FilesError),
}

/// A hint for a name that is already taken; the system's error says the rest.
fn taken(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AlreadyExists => " (an existing file is never overwritten; choose another name)",
        _ => "",
    }
}
