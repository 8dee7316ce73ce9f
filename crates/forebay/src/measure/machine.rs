//! Activity of the machine while a job is measured: interrupts, including those of the target's queues, and idle states.

use super::block_layer::{self, BlockWatch};
use forebay_bench::run::{IdleUse, Interrupts, MachineUse, MachineWatch};
use forebay_platform::{Activity, Lack, Tree};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Maximum number of interrupt sources in a result; the rest is summed up as one.
const SOURCES_MAX: usize = 12;

/// Whether the requests in the block layer are measured.
#[derive(Clone, Debug)]
pub enum BlockLayer {
    /// Not requested.
    Unasked,
    /// The target's requests, by probes.
    Of(String),
    /// Requested but not possible, for this reason.
    Not(&'static str),
}

/// Starts watching the machine for a measurement of `targets`.
pub fn watch(targets: &[&str], block_layer: BlockLayer) -> MachineWatch {
    let own: Vec<String> = targets.iter().filter_map(|target| own_name_of(target)).collect();
    MachineWatch::new(move || {
        let own = own.clone();
        let probes = match &block_layer {
            BlockLayer::Unasked => None,
            BlockLayer::Of(target) => Some(BlockWatch::start(target).map_err(|error| block_layer::why(&error))),
            BlockLayer::Not(why) => Some(Err(format!("the block layer: {why}"))),
        };
        Box::new(move || {
            if let Some(Ok(probes)) = &probes {
                probes.begin();
            }
            let (before, begun) = (read(), Instant::now());
            Box::new(move || {
                let elapsed_us = begun.elapsed().as_micros() as f64;
                let mut found = match (before, read()) {
                    (Ok(before), Ok(after)) => change(&before, &after, elapsed_us, &own),
                    (Err(why), _) | (_, Err(why)) => MachineUse { unknown: vec![why], ..MachineUse::default() },
                };
                let block = probes.map(|probes| probes?.finish().map_err(|error| block_layer::why(&error)));
                match block {
                    Some(Ok(block)) => found.block = Some(block),
                    Some(Err(why)) => found.unknown.push(why),
                    None => {}
                }
                found
            })
        })
    })
}

/// Reads the present counters, through a new tree because a tree caches its files.
fn read() -> Result<Activity, String> {
    Ok(Activity::read(&Tree::open(Path::new("/")).map_err(|error| error.to_string())?))
}

/// Prefix of the names of the target's interrupts; none where unknown.
fn own_name_of(target: &str) -> Option<String> {
    let drive = block_layer::device(target).ok()?.disk.name;
    own_name(&drive, &driver_path(&drive))
}

/// The kernel's path of a drive's device.
fn driver_path(drive: &str) -> String {
    let path = std::fs::canonicalize(format!("/sys/class/block/{drive}/device"));
    path.map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned())
}

/// Prefix of the interrupts of a drive: `nvme0q1` and so on are queues of nvme0n1, `virtio1-req.0` belongs to a drive on virtio1.
fn own_name(drive: &str, driver_path: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = drive.strip_prefix("nvme") {
        let (controller, _) = rest.split_once('n').filter(|(number, _)| is_number(number))?;
        return Some(format!("nvme{controller}q"));
    }
    let virtio = driver_path.split('/').rfind(|part| part.strip_prefix("virtio").is_some_and(is_number))?;
    Some(format!("{virtio}-req"))
}

fn change(before: &Activity, after: &Activity, elapsed_us: f64, own: &[String]) -> MachineUse {
    let mut unknown = Vec::new();
    let mut lacks = |what: &str, lack: &Lack| unknown.push(format!("{what}: {lack}"));
    let interrupts = match (&before.interrupts, &after.interrupts) {
        (Ok(before), Ok(after)) => Some(came(before, after, own)),
        (Err(lack), _) | (_, Err(lack)) => {
            lacks("interrupts", lack);
            None
        }
    };
    let idle = match (&before.idle, &after.idle) {
        (Ok(before), Ok(after)) => {
            let of_state = |(state, after): (&String, &forebay_platform::IdleTime)| {
                let before = before.get(state).copied().unwrap_or_default();
                let all_us = elapsed_us * after.cpus.max(1) as f64;
                let share = after.time_us.saturating_sub(before.time_us) as f64 / all_us.max(1.0);
                // The kernel counts a stay in an idle state at its end, so a stay that began before the run can exceed the run.
                let entered = after.entered.saturating_sub(before.entered);
                IdleUse { state: state.clone(), share: share.min(1.0), entered }
            };
            Some(after.iter().map(of_state).collect())
        }
        (Err(lack), _) | (_, Err(lack)) => {
            lacks("idle states", lack);
            None
        }
    };
    MachineUse { interrupts, idle, block: None, unknown }
}

fn came(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, own: &[String]) -> Vec<Interrupts> {
    let is_own = |source: &str| source.split(", ").any(|name| own.iter().any(|own| name.starts_with(own.as_str())));
    let of = |(source, &count): (&String, &u64)| {
        let count = count.saturating_sub(before.get(source).copied().unwrap_or(0));
        Interrupts { source: source.clone(), count, is_targets: is_own(source) }
    };
    let mut all: Vec<Interrupts> = after.iter().map(of).filter(|source| source.count > 0).collect();
    // Among equal counts, the target's sources come first.
    all.sort_by_key(|source| (std::cmp::Reverse(source.count), !source.is_targets));
    let mut others = 0;
    let mut kept = 0;
    all.retain(|source| {
        kept += usize::from(!source.is_targets);
        let is_kept = source.is_targets || kept <= SOURCES_MAX;
        others += if is_kept { 0 } else { source.count };
        is_kept
    });
    if others > 0 {
        all.push(Interrupts { source: "others".to_owned(), count: others, is_targets: false });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_platform::IdleTime;

    #[test]
    fn interrupts_of_a_drives_queues_are_known_by_their_names() {
        let virtio = "/sys/devices/pci0000:00/0000:00:02.0/virtio1";
        assert_eq!(own_name("nvme0n1", "/sys/devices/x/nvme/nvme0").as_deref(), Some("nvme0q"));
        assert_eq!(own_name("nvme12n3p1", "").as_deref(), Some("nvme12q"));
        assert_eq!(own_name("vda", virtio).as_deref(), Some("virtio1-req"));
        assert_eq!(own_name("sda", "/sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0"), None);
    }

    #[test]
    fn what_came_between_two_looks_is_counted() {
        let counts = |of: &[(&str, u64)]| Ok(of.iter().map(|&(name, count)| (name.to_owned(), count)).collect());
        let idle = |time_us, entered| Ok(BTreeMap::from([("C6".to_owned(), IdleTime { time_us, entered, cpus: 4 })]));
        let before =
            Activity { interrupts: counts(&[("nvme0q1", 10), ("timer", 5), ("still", 7)]), idle: idle(100, 1) };
        let after = Activity {
            interrupts: counts(&[("nvme0q1", 40), ("timer", 105), ("still", 7), ("new", 1)]),
            idle: idle(2100, 21),
        };
        let found = change(&before, &after, 1000.0, &["nvme0q".to_owned()]);
        let sources: Vec<_> =
            found.interrupts.as_ref().unwrap().iter().map(|of| (of.source.as_str(), of.count, of.is_targets)).collect();
        assert_eq!(sources, [("timer", 100, false), ("nvme0q1", 30, true), ("new", 1, false)]);
        assert_eq!((found.interrupts(), found.of_target()), (Some(131), Some(30)));
        assert_eq!(found.idle.unwrap(), [IdleUse { state: "C6".to_owned(), share: 0.5, entered: 20 }]);
        assert!(change(&before, &after, 1000.0, &[]).of_target().is_none());
    }

    #[test]
    fn sources_beyond_the_first_are_one() {
        let many: BTreeMap<String, u64> = (0..40).map(|number| (format!("source{number:02}"), 100 - number)).collect();
        let found = came(&BTreeMap::new(), &many, &["source39".to_owned()]);
        assert_eq!(found.len(), SOURCES_MAX + 2);
        assert_eq!(found.iter().map(|of| of.count).sum::<u64>(), many.values().sum::<u64>());
        assert!(found.iter().any(|of| of.is_targets && of.source == "source39"));
    }
}
