//! Facts that a drive reports only in answer to a command, beside its counters: its wear and its power management.

use super::ata::{self, Ata};
use super::health::Health;
use super::layers::{Bus, Places};
use super::passthru::{FEATURE_POWER, FEATURE_SLEEP, LOG_HEALTH, Query, QueryError, ask, read_log};
use super::power::{PowerStates, Transition, current, transitions};
use std::path::Path;

/// An answer, or the reason why there is none, with advice where there is any.
pub type Said<T> = Result<T, String>;

/// The answers of a drive. None of them identifies the individual drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// An NVMe drive.
    Nvme {
        /// Its SMART / Health page.
        health: Said<Box<Health>>,
        /// Its power states.
        power: Said<PowerStates>,
        /// Number of the power state in which it answered.
        state: Said<u8>,
        /// Transitions between power states that it makes by itself; empty where it makes none.
        sleep: Said<Vec<Transition>>,
    },
    /// An ATA drive.
    Ata(Said<Ata>),
    /// A drive for which no command is known, with the reason.
    None(String),
}

/// Asks the drive of a block device or partition. Blocks for up to four administrative commands, which only read.
#[must_use]
pub fn inquire(path: &Path) -> Inquiry {
    inquire_at(&Places::default(), path)
}

fn inquire_at(places: &Places, path: &Path) -> Inquiry {
    let found = places.number_of(path).and_then(|number| places.drive(number));
    let bus = match found.and_then(|drive| places.bus(&drive)) {
        Ok(bus) => bus,
        Err(error) => return Inquiry::None(error.to_string()),
    };
    match bus {
        Bus::Nvme(node) => nvme(&node),
        Bus::Ata(node) => Inquiry::Ata(ata::identify(&node).map_err(|error| error.to_string())),
        Bus::Scsi(name) => Inquiry::None(format!("{name} is a SCSI drive; `smartctl -x /dev/{name}` asks it")),
        Bus::Other(name, what) => Inquiry::None(format!("{name} is {what}")),
    }
}

fn nvme(node: &Path) -> Inquiry {
    let said = |error: QueryError| error.to_string();
    let power = ask(node, Query::Identify)
        .map_err(said)
        .and_then(|answer| PowerStates::parse(&answer.data).ok_or_else(|| "a short answer".to_owned()));
    // Feature 0Ch is requested only where the drive supports it: some drives count a refusal as an error.
    let sleep = match &power {
        Ok(power) if power.can_sleep => {
            ask(node, Query::Feature(FEATURE_SLEEP)).map(|answer| transitions(&answer)).map_err(said)
        }
        Ok(_) => Ok(Vec::new()),
        Err(why) => Err(why.clone()),
    };
    Inquiry::Nvme {
        health: read_log(node, LOG_HEALTH).map(|page| Box::new(Health::parse(&page))).map_err(said),
        state: ask(node, Query::Feature(FEATURE_POWER)).map(|answer| current(&answer)).map_err(said),
        power,
        sleep,
    }
}

/// Kernel name of the drive at the bottom of a file, a directory or a block device.
///
/// # Errors
/// The path lies on no drive, or on several.
pub fn drive_below(path: &Path) -> Said<String> {
    let places = Places::default();
    let number = places.number_of(path).map_err(|error| error.to_string())?;
    let (layers, ended) = places.descend(number);
    match (layers.last(), ended) {
        (Some(drive), None) => Ok(drive.name.clone()),
        (_, Some(error)) => Err(error.to_string()),
        (None, None) => Err(format!("{} lies on no block device", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_drive_is_not_asked() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let places = Places { sys: file.path().with_extension("nothing"), ..Places::default() };
        assert!(matches!(inquire_at(&places, file.path()), Inquiry::None(_)));
        assert!(matches!(inquire(Path::new("/nonexistent/nvme0n1")), Inquiry::None(_)));
        assert!(matches!(inquire(Path::new("/dev/null")), Inquiry::None(_)));
        assert!(drive_below(Path::new("/proc/version")).is_err(), "procfs lies on no device");
    }
}
