//! A drive's own counters, read before and after a measurement: what kernel, controller and medium count, to compare
//! with the measurement's own figures.
//!
//! Sources: the kernel's `stat` of every block device between the path and the drive; NVMe's SMART / Health page; the
//! extended SMART page of drives that follow the OCP specification, which counts what reached the medium. A missing
//! source is left out with its reason. Nothing here fails as a whole, because a measurement is worth having without
//! counters.
//!
//! Reading changes counters, too: a drive without the OCP page may enter the refusal into its error log, which is
//! counted. So this page is requested before the health page is read, and [`Counters::read_again`] does not repeat a
//! refused request. The difference of two readings thus shows none of it.

mod ata;
mod difference;
mod health;
mod inquiry;
mod layers;
mod mounts;
mod ocp;
mod page;
mod passthru;
mod power;
mod stat;

pub use ata::Ata;
pub use difference::Difference;
pub use health::{DATA_UNIT_BYTES, Health};
pub use inquiry::{Inquiry, Said, drive_below, inquire};
pub use layers::Layer;
pub use ocp::Media;
pub use page::{PAGE_BYTES, Page};
pub use power::{PowerState, PowerStates, Transition};
pub use stat::{KernelOps, KernelStat};

use layers::{Bus, Places};
use passthru::{LOG_HEALTH, LOG_OCP, read_log};
use std::fmt;
use std::path::{Path, PathBuf};

/// A source of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel's block layer.
    Kernel,
    /// The controller's SMART / Health page.
    Health,
    /// The extended SMART page of the OCP specification.
    Media,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel's counters",
            Self::Health => "drive's SMART counters",
            Self::Media => "medium's counters (OCP)",
        })
    }
}

/// A source whose counters are missing or cannot be trusted, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The source.
    pub source: Source,
    /// The reason, with advice where there is any.
    pub reason: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left out: {}", self.source, self.reason)
    }
}

/// All counters that could be read at one moment.
#[derive(Clone, Debug)]
pub struct Counters {
    path: PathBuf,
    layers: Vec<Layer>,
    health: Option<Health>,
    media: Option<Media>,
    left_out: Vec<LeftOut>,
    /// The drive has refused the OCP page.
    media_refused: bool,
}

impl Counters {
    /// Reads the counters of a block device, or of the device under a file or directory. This takes well under a
    /// millisecond for the kernel's counters, and up to two administrative commands for the drive's. Do not call it
    /// during a measurement.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        Self::read_at(&Places::default(), path, None)
    }

    /// Reads the counters of the same device again. Requests that the drive has refused are not repeated.
    #[must_use]
    pub fn read_again(&self) -> Self {
        Self::read_at(&Places::default(), &self.path, Some(self))
    }

    /// The path whose counters were read.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The block devices from the path (first) down to the drive (last); empty where none was found.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The controller's health data; `None` where there is none. Power-on hours and cycles matter where a drive has
    /// to warm up.
    #[must_use]
    pub fn health(&self) -> Option<&Health> {
        self.health.as_ref()
    }

    /// Data moved to and from the medium; `None` where the drive does not report it.
    #[must_use]
    pub fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    /// The sources without counters, each with its reason.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn leave_out(&mut self, source: Source, reason: impl ToString) {
        self.left_out.push(LeftOut { source, reason: reason.to_string() });
    }

    fn leave_out_drive(&mut self, reason: &impl ToString) {
        self.leave_out(Source::Health, reason.to_string());
        self.leave_out(Source::Media, reason.to_string());
    }

    fn read_at(places: &Places, path: &Path, earlier: Option<&Self>) -> Self {
        let mut counters = Self {
            path: path.to_owned(),
            layers: Vec::new(),
            health: None,
            media: None,
            left_out: Vec::new(),
            media_refused: false,
        };
        let number = match places.number_of(path) {
            Ok(number) => number,
            Err(error) => {
                counters.leave_out(Source::Kernel, &error);
                counters.leave_out_drive(&error);
                return counters;
            }
        };
        let (layers, ended) = places.descend(number);
        counters.layers = layers;
        if counters.layers.is_empty() {
            let reason = ended.map_or_else(|| "no such block device".to_owned(), |error| error.to_string());
            counters.leave_out(Source::Kernel, &reason);
            counters.leave_out_drive(&reason);
            return counters;
        }
        let silent: Vec<String> =
            counters.layers.iter().filter(|layer| layer.stat.is_none()).map(|layer| layer.name.clone()).collect();
        if !silent.is_empty() {
            counters.leave_out(Source::Kernel, format!("{} has none that can be read", silent.join(", ")));
        }
        let off: Vec<&str> =
            counters.layers.iter().filter(|layer| places.counts_not(layer)).map(|layer| layer.name.as_str()).collect();
        if !off.is_empty() {
            let names = off.join(", ");
            counters.leave_out(
                Source::Kernel,
                format!("{names} may stand still: its queue/iostats in sysfs is 0, write 1"),
            );
        }
        match ended {
            Some(error) => counters.leave_out_drive(&error),
            None => counters.ask_drive(places, earlier),
        }
        counters
    }

    fn ask_drive(&mut self, places: &Places, earlier: Option<&Self>) {
        let Some(drive) = self.layers.last() else { return };
        match places.bus(drive) {
            Ok(Bus::Nvme(node)) => {
                self.ask_media(&node, earlier);
                match read_log(&node, LOG_HEALTH) {
                    Ok(page) => self.health = Some(Health::parse(&page)),
                    Err(error) => self.leave_out(Source::Health, error),
                }
            }
            Ok(Bus::Ata(_) | Bus::Scsi(_)) => {
                let reason = format!(
                    "{0} is an ATA or SCSI drive, whose counters are not read here; `smartctl -x /dev/{0}` shows them",
                    drive.name
                );
                self.leave_out_drive(&reason);
            }
            Ok(Bus::Other(name, what)) => self.leave_out_drive(&format!("{name} is {what}, not an NVMe drive")),
            Err(error) => self.leave_out_drive(&error),
        }
    }

    fn ask_media(&mut self, node: &Path, earlier: Option<&Self>) {
        if let Some(earlier) = earlier.filter(|earlier| earlier.media_refused) {
            self.media_refused = true;
            self.left_out.extend(earlier.left_out.iter().filter(|left| left.source == Source::Media).cloned());
            return;
        }
        match read_log(node, LOG_OCP) {
            Ok(page) => match Media::parse(&page) {
                Some(media) => self.media = Some(media),
                None => self.leave_out(
                    Source::Media,
                    format!("log page {LOG_OCP:#04x} of {} is not the OCP one: its GUID differs", node.display()),
                ),
            },
            Err(error) => {
                self.media_refused = error.is_refusal();
                self.leave_out(Source::Media, error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
