//! All settings that are read of a machine.

use crate::lack::Lack;
use crate::settings::answers::Ask;
use crate::settings::cpu::Cpu;
use crate::settings::device::{self, Device};
use crate::settings::kernel::Kernel;
use crate::settings::power::Power;
use crate::settings::services::Services;
use crate::tree::Tree;
use thiserror::Error;

/// A machine, according to its files.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CPUs.
    pub cpu: Cpu,
    /// The kernel.
    pub kernel: Kernel,
    /// Power supply and saving.
    pub power: Power,
    /// Background programs.
    pub services: Services,
    /// The devices that were requested.
    pub devices: Vec<Device>,
}

/// The devices to read.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// No devices.
    Machine,
    /// One device: a name such as `nvme0n1`, or a path such as `/dev/nvme0n1`.
    Device(&'a str),
    /// All disks, for a capture.
    All,
}

/// Why a device cannot be examined.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// There is no such device.
    #[error("{name}: no such block device; there are {known}")]
    Unknown {
        /// The name in the request.
        name: String,
        /// The existing devices, separated by commas.
        known: String,
    },
    /// Its files cannot be read.
    #[error("{name}: {lack}")]
    Unreadable {
        /// The name in the request.
        name: String,
        /// The reason.
        lack: Lack,
    },
}

impl Machine {
    /// Reads the settings of a machine and of the requested devices.
    ///
    /// # Errors
    /// A requested device does not exist, or cannot be read.
    pub fn read(tree: &Tree, wanted: Wanted<'_>) -> Result<Self, DeviceError> {
        Self::read_asking(tree, wanted, None)
    }

    /// Like [`Machine::read`], but `asker` sends commands to drives for facts that no file shows.
    ///
    /// # Errors
    /// As [`Machine::read`].
    pub fn read_asking(tree: &Tree, wanted: Wanted<'_>, asker: Option<&dyn Ask>) -> Result<Self, DeviceError> {
        let devices = match wanted {
            Wanted::Machine => Vec::new(),
            Wanted::Device(name) => vec![one(tree, name, asker)?],
            Wanted::All => device::disks(tree)
                .unwrap_or_default()
                .iter()
                .filter_map(|name| Device::read(tree, name, asker).ok())
                .collect(),
        };
        Ok(Self {
            cpu: Cpu::read(tree),
            kernel: Kernel::read(tree),
            power: Power::read(tree),
            services: Services::read(tree),
            devices,
        })
    }

    /// Whether the machine runs on a hypervisor; `false` if nothing indicates that.
    pub fn is_virtual(&self) -> bool {
        self.cpu.identity.as_ref().is_ok_and(|identity| identity.is_virtual) || self.kernel.hypervisor.is_ok()
    }

    /// Names of the disks that can be requested.
    pub fn disks(tree: &Tree) -> Vec<String> {
        device::disks(tree).unwrap_or_default()
    }
}

fn one(tree: &Tree, name: &str, asker: Option<&dyn Ask>) -> Result<Device, DeviceError> {
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let unknown = || {
        let known = Machine::disks(tree);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        DeviceError::Unknown { name: name.to_owned(), known }
    };
    // In sysfs a '/' in a device's name becomes a '!'.
    let short = short.replace('/', "!");
    if matches!(short.as_str(), "" | "." | "..") {
        return Err(unknown());
    }
    Device::read(tree, &short, asker).map_err(|lack| match lack {
        Lack::Absent { .. } => unknown(),
        lack => DeviceError::Unreadable { name: name.to_owned(), lack },
    })
}
