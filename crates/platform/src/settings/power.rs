//! Power supply, and programs that save power.

use super::text::number;
use crate::lack::{Lack, Reading};
use crate::tree::Tree;

/// Power settings of the machine.
#[derive(Clone, Debug)]
pub struct Power {
    /// `None` if the machine has no battery; otherwise whether it is discharging.
    pub battery: Reading<Option<bool>>,
    /// The firmware's profile.
    pub profile: Reading<String>,
    /// Idle time in seconds before USB devices are suspended; negative for never.
    pub usb_autosuspend_s: Reading<i64>,
    /// Target of the link of the systemd unit through which every sleep passes.
    pub sleep_target: Reading<String>,
    /// Kinds of sleep that the kernel supports.
    pub sleep_states: Reading<String>,
}

impl Power {
    /// Reads all power settings.
    pub fn read(tree: &Tree) -> Self {
        Self {
            battery: battery(tree),
            profile: tree.read("/sys/firmware/acpi/platform_profile"),
            usb_autosuspend_s: number(tree, "/sys/module/usbcore/parameters/autosuspend"),
            sleep_target: tree.link("/etc/systemd/system/sleep.target"),
            sleep_states: tree.read("/sys/power/state"),
        }
    }
}

fn battery(tree: &Tree) -> Reading<Option<bool>> {
    const SUPPLIES: &str = "/sys/class/power_supply";
    let listing = match tree.list(SUPPLIES, |_| true) {
        Ok(listing) => listing,
        Err(Lack::Absent { .. }) => return Ok(None),
        Err(lack) => return Err(lack),
    };
    let mut is_emptied = None;
    for name in listing.names {
        let at = |file: &str| tree.read(&format!("{SUPPLIES}/{name}/{file}"));
        // Batteries of mice and keyboards have the scope "Device".
        let is_of_machine = at("scope").map_or(true, |scope| scope != "Device");
        if at("type").is_ok_and(|kind| kind == "Battery") && is_of_machine {
            let is_this = at("status").is_ok_and(|status| status == "Discharging");
            is_emptied = Some(is_emptied.unwrap_or(false) || is_this);
        }
    }
    Ok(is_emptied)
}
