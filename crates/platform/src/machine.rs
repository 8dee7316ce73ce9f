//! Everything that is read of a machine.

use crate::lack::Lack;
use crate::settings::answers::Ask;
use crate::settings::cpu::Cpu;
use crate::settings::device::{self, Device};
use crate::settings::kernel::Kernel;
use crate::settings::power::Power;
use crate::settings::services::Services;
use crate::tree::Tree;
use thiserror::Error;

/// A machine, as its files say.
#[derive(Clone, Debug)]
pub struct Machine {
    /// CPUs.
    pub cpu: Cpu,
    /// The kernel.
    pub kernel: Kernel,
    /// Power.
    pub power: Power,
    /// What goes on beside.
    pub services: Services,
    /// Devices that were asked for.
    pub devices: Vec<Device>,
}

/// Which devices are read.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// None.
    Machine,
    /// This one: a name such as `nvme0n1`, or a path such as `/dev/nvme0n1`.
    Device(&'a str),
    /// All disks, for a capture.
    All,
}

/// A device that cannot be looked at.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// It does not exist.
    #[error("{name}: no such block device; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Its files cannot be read.
    #[error("{name}: {lack}")]
    Unreadable {
        /// What was asked for.
        name: String,
        /// Why.
        lack: Lack,
    },
}

impl Machine {
    /// Reads the settings of a machine and of the devices that are wanted.
    ///
    /// # Errors
    /// Where a device that is wanted is not there.
    pub fn read(tree: &Tree, wanted: Wanted<'_>) -> Result<Self, DeviceError> {
        Self::read_asking(tree, wanted, None)
    }

    /// As [`Machine::read`], where drives are asked what no file says.
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

    /// It runs on a hypervisor. `false` where nothing says so.
    pub fn is_virtual(&self) -> bool {
        self.cpu.identity.as_ref().is_ok_and(|identity| identity.is_virtual) || self.kernel.hypervisor.is_ok()
    }

    /// Names of the disks that can be asked for.
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
    // In sysfs a '/' of a device's name is a '!'.
    let short = short.replace('/', "!");
    if matches!(short.as_str(), "" | "." | "..") {
        return Err(unknown());
    }
    Device::read(tree, &short, asker).map_err(|lack| match lack {
        Lack::Absent { .. } => unknown(),
        lack => DeviceError::Unreadable { name: name.to_owned(), lack },
    })
}
