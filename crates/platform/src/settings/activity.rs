//! The machine's activity since boot, as the kernel counts it: interrupts by source, and time of processors in idle
//! states.

use super::text::{is_numbered, parsed_number};
use crate::lack::{Lack, Reading};
use crate::tree::Tree;
use std::collections::BTreeMap;

const INTERRUPTS: &str = "/proc/interrupts";
/// Longest text of interrupts: that of a machine with hundreds of processors and thousands of queues has some MiB.
const INTERRUPTS_BYTES_MAX: usize = 16 << 20;
const CPUS: &str = "/sys/devices/system/cpu";

/// The machine's activity since boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Number of interrupts on all processors, by the kernel's name of their source.
    pub interrupts: Reading<BTreeMap<String, u64>>,
    /// For each idle state, by name, the time that all processors spent in it.
    pub idle: Reading<BTreeMap<String, IdleTime>>,
}

/// Time in an idle state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTime {
    /// In microseconds, all processors together.
    pub time_us: u64,
    /// Number of times the state was entered.
    pub entered: u64,
    /// Number of processors that have the state.
    pub cpus: u64,
}

impl Activity {
    /// Reads the counts up to now.
    #[must_use]
    pub fn read(tree: &Tree) -> Self {
        Self { interrupts: interrupts(tree), idle: idle(tree) }
    }
}

fn interrupts(tree: &Tree) -> Reading<BTreeMap<String, u64>> {
    let text = tree.read_kept(INTERRUPTS, INTERRUPTS_BYTES_MAX, |text| Some(text.to_owned()))?;
    let mut lines = text.lines();
    // The first line names the processors: each other line has a count for each of them.
    let cpus = lines.next().map_or(0, |head| head.split_whitespace().filter(|word| is_numbered(word, "CPU")).count());
    if cpus == 0 {
        return Err(Lack::unreadable(INTERRUPTS, "its first line names no CPU"));
    }
    let mut found = BTreeMap::new();
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_whitespace().peekable();
        let mut count = 0_u64;
        // Lines such as ERR have only one count.
        for _ in 0..cpus {
            let Some(of_cpu) = words.peek().and_then(|word| word.parse::<u64>().ok()) else { break };
            count = count.saturating_add(of_cpu);
            words.next();
        }
        let source = source(number.trim(), &words.collect::<Vec<_>>());
        let sum = found.entry(source).or_insert(0_u64);
        *sum = sum.saturating_add(count);
    }
    Ok(found)
}

/// The name of a source: for a device, the driver's name, which follows chip, number and kind; for others, the whole
/// text.
fn source(number: &str, words: &[&str]) -> String {
    let is_device = number.bytes().all(|byte| byte.is_ascii_digit());
    let from = if is_device {
        words.iter().position(|word| word.ends_with("-edge") || word.ends_with("-level") || word.ends_with("-fasteoi"))
    } else {
        None
    };
    let name = words[from.map_or(0, |at| at + 1)..].join(" ");
    if name.is_empty() { number.to_owned() } else { name }
}

fn idle(tree: &Tree) -> Reading<BTreeMap<String, IdleTime>> {
    let mut found: BTreeMap<String, IdleTime> = BTreeMap::new();
    for cpu in tree.list(CPUS, |name| is_numbered(name, "cpu"))?.names {
        let folder = format!("{CPUS}/{cpu}/cpuidle");
        let Ok(listing) = tree.list(&folder, |name| is_numbered(name, "state")) else { continue };
        for state in listing.names {
            let read = |file: &str| {
                let path = format!("{folder}/{state}/{file}");
                let value = parsed_number(&path, &tree.read(&path)?)?;
                u64::try_from(value).map_err(|_| Lack::unreadable(&path, "it is below 0"))
            };
            let name = tree.read(&format!("{folder}/{state}/name"))?;
            let (time_us, entered) = (read("time")?, read("usage")?);
            let sum = found.entry(name).or_default();
            sum.time_us = sum.time_us.saturating_add(time_us);
            sum.entered = sum.entered.saturating_add(entered);
            sum.cpus += 1;
        }
    }
    // A guest whose processors only halt has no idle states.
    if found.is_empty() { Err(Lack::absent(&format!("{CPUS}/cpu0/cpuidle"))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::open(root.path()).unwrap();
        (root, tree)
    }

    #[test]
    fn interrupts_of_all_processors_are_added_by_their_source() {
        let text = "            CPU0       CPU1       \n\
             28:          7          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config\n\
             36:          5         20 PCI-MSI 1048577-edge      nvme0q1, nvme0q9\n\
             37:          1          2 PCI-MSI 1048578-edge\n\
             LOC:         40         50   Local timer interrupts\n\
             ERR:          3\n";
        let (_root, tree) = tree(&[("proc/interrupts", text)]);
        let found = Activity::read(&tree);
        let of = |source: &str| found.interrupts.as_ref().unwrap().get(source).copied();
        assert_eq!((of("virtio0-config"), of("nvme0q1, nvme0q9"), of("37")), (Some(7), Some(25), Some(3)));
        assert_eq!((of("Local timer interrupts"), of("ERR")), (Some(90), Some(3)));
        assert!(found.idle.is_err());
    }

    #[test]
    fn idle_time_of_all_processors_is_added_by_state() {
        let of = |cpu: usize, state: usize, name: &str, time: u64| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            [("name", name.to_owned()), ("time", time.to_string()), ("usage", (time / 10).to_string())]
                .map(|(file, text)| (format!("{folder}/{file}"), text))
        };
        let files: Vec<_> =
            [of(0, 0, "POLL", 10), of(0, 1, "C6", 1000), of(1, 0, "POLL", 20), of(1, 1, "C6", 3000)].concat();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_root, tree) = tree(&files);
        let found = Activity::read(&tree);
        let idle = found.idle.unwrap();
        assert_eq!(idle["C6"], IdleTime { time_us: 4000, entered: 400, cpus: 2 });
        assert_eq!(idle["POLL"], IdleTime { time_us: 30, entered: 3, cpus: 2 });
        assert!(found.interrupts.is_err());
    }

    #[test]
    fn what_is_no_table_of_interrupts_is_unknown() {
        for text in ["", "nonsense\n", "CPU0\n"] {
            let (_root, tree) = tree(&[("proc/interrupts", text)]);
            assert_eq!(Activity::read(&tree).interrupts.is_ok(), text == "CPU0\n", "{text:?}");
        }
    }
}
