//! Background programs that are known to disturb measurements.

use crate::lack::{Lack, Reading};
use crate::tree::{FILE_BYTES_MAX, Tree};
use std::collections::BTreeSet;

/// Processes that read or index files, by their short names (15 characters in the kernel).
pub const SCANNERS: [(&str, &str); 18] = [
    ("updatedb", "lists all files for locate"),
    ("updatedb.plocat", "lists all files for locate"),
    ("updatedb.mlocat", "lists all files for locate"),
    ("tracker-miner-f", "indexes files"),
    ("localsearch-3", "indexes files"),
    ("baloo_file", "indexes files"),
    ("baloo_file_extr", "indexes files"),
    ("recollindex", "indexes files"),
    ("beagled", "indexes files"),
    ("clamd", "scans files for malware"),
    ("clamscan", "scans files for malware"),
    ("freshclam", "fetches what clamd scans for"),
    ("aide", "checks all files"),
    ("fstrim", "discards free space"),
    ("xfs_scrub", "checks file systems"),
    ("e2scrub_all", "checks file systems"),
    ("btrfs-cleaner_", "balances file systems"),
    ("smartd", "reads the counters of drives"),
];
/// Daemons that set the same settings as other rules, and may change them back.
pub const TUNERS: [&str; 6] = ["tuned", "power-profiles-", "thermald", "auto-cpufreq", "tlp-pd", "laptop_mode"];
/// The daemon that distributes interrupts.
pub const BALANCER: &str = "irqbalance";
/// Timers and daily jobs that read, trim or check disks.
pub const SCHEDULED: [&str; 17] = [
    "btrfs-balance.timer",
    "btrfs-scrub.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "locate",
    "man-db.timer",
    "mdcheck_continue.timer",
    "mdcheck_start.timer",
    "mdadm-last-resort@.timer",
    "mlocate",
    "mlocate-updatedb.timer",
    "plocate",
    "plocate-updatedb.timer",
    "raid-check.timer",
    "updatedb.timer",
    "xfs_scrub_all.timer",
    "dailyaidecheck.timer",
];
/// Folders of timers and daily jobs.
const SCHEDULES: [&str; 4] = [
    "/etc/systemd/system/timers.target.wants",
    "/usr/lib/systemd/system/timers.target.wants",
    "/etc/systemd/system/multi-user.target.wants",
    "/etc/cron.daily",
];

/// Programs that run besides the load.
#[derive(Clone, Debug)]
pub struct Services {
    /// Names of running processes that are in the lists above.
    pub running: Reading<BTreeSet<String>>,
    /// Whether all processes were examined.
    pub is_whole: bool,
    /// Names of timers and daily jobs that are in the list above.
    pub scheduled: Reading<BTreeSet<String>>,
}

fn is_listed(name: &str) -> bool {
    name == BALANCER || TUNERS.contains(&name) || SCANNERS.iter().any(|(known, _)| *known == name)
}

/// Names of running services that change settings back.
pub fn meddlers(tree: &Tree) -> Vec<String> {
    let is_one = |name: &String| name == BALANCER || TUNERS.contains(&name.as_str());
    Services::read(tree).running.unwrap_or_default().into_iter().filter(is_one).collect()
}

impl Services {
    /// Reads the names of all such programs.
    pub fn read(tree: &Tree) -> Self {
        let (running, is_whole) = match running(tree) {
            Ok((names, is_whole)) => (Ok(names), is_whole),
            Err(lack) => (Err(lack), false),
        };
        Self { running, is_whole, scheduled: scheduled(tree) }
    }
}

fn running(tree: &Tree) -> Reading<(BTreeSet<String>, bool)> {
    let listing = tree.list("/proc", |name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
    let keep = |text: &str| is_listed(text.trim()).then(|| text.trim().to_owned());
    // Processes that have ended meanwhile are left out.
    let name = |process: &String| tree.read_kept(&format!("/proc/{process}/comm"), FILE_BYTES_MAX, keep).ok();
    Ok((listing.names.iter().filter_map(name).collect(), listing.is_whole))
}

fn scheduled(tree: &Tree) -> Reading<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut missing = None;
    let mut is_read = false;
    for folder in SCHEDULES {
        match tree.list_for_names(folder, |name| SCHEDULED.contains(&name)) {
            Ok(listing) => {
                is_read = true;
                names.extend(listing.names);
            }
            Err(lack @ Lack::Absent { .. }) => missing = Some(lack),
            Err(lack) => return Err(lack),
        }
    }
    match missing {
        Some(lack) if !is_read => Err(lack),
        _ => Ok(names),
    }
}
