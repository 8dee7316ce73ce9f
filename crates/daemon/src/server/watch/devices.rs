//! Logs devices that fail requests or are slow.

use crate::config::LogLimits;
use crate::log::{Causes, Report, Severity};
use crate::pool::{UNANSWERED, WatchedOne};
use crate::text;
use forebay_block::IoError;
use std::time::Duration;

/// Checks in succession without a slow request after which a device is not slow any more.
const QUICK_LOOKS: u32 = 30;

/// Advice on a device that another program has overwritten and that the pool needs.
const OVERWRITTEN: &str = "Find out who writes to it, and end that. Copy what can still be read of the pool's disks before anything else: what lay there is gone, and the next start may refuse this device (docs/when-a-device-fails.md)";

/// Advice on a device of which one copy of the superblock is damaged.
const DAMAGED: &str = "Find out who writes to it (a tool that wiped the first sectors, say), and let a scrub read the rest of it (`forebay scrub`). Without a start it stays in use as it is, as long as the other copies are whole";

/// State of a device at the last check.
struct Known {
    name: String,
    errors: u64,
    quick_looks: u32,
}

/// States of all devices at the last check.
#[derive(Default)]
pub struct DeviceWatch {
    known: Vec<Known>,
}

impl DeviceWatch {
    /// Checks all devices.
    pub fn look(&mut self, now_ns: u64, causes: &mut Causes, limits: &LogLimits, devices: &[WatchedOne<'_>]) {
        self.known.retain(|known| devices.iter().any(|device| device.name == known.name));
        for device in devices {
            let name = device.name;
            if !self.known.iter().any(|known| known.name == name) {
                self.known.push(Known { name: name.to_owned(), errors: 0, quick_looks: 0 });
            }
            let Some(known) = self.known.iter_mut().find(|known| known.name == name) else { continue };
            known.look(now_ns, causes, limits, device);
        }
    }
}

impl Known {
    fn look(&mut self, now_ns: u64, causes: &mut Causes, limits: &LogLimits, device: &WatchedOne<'_>) {
        let name = device.name;
        let counts = device.counts.now();
        let of = device.member_of.map_or_else(String::new, |tier| format!(" of the {tier} tier"));
        if counts.errors > self.errors {
            let last = counts.last_error.as_ref().map(ToString::to_string).unwrap_or_default();
            let message =
                format!("device {name}{of}: {last}; {} failed since the start", text::count(counts.errors, "request"));
            let (severity, cause) = (Severity::Error, "device error");
            let advice = advice_for(counts.last_error.as_ref());
            causes.happened(now_ns, &Report { severity, cause, about: name, message, advice });
        }
        // A count below the former one belongs to another device that took its place.
        self.errors = counts.errors;
        if let Some(message) = silence(name, counts.unanswered) {
            let (severity, cause) = (Severity::Error, "device does not answer");
            let advice = "Look at dmesg. Nothing is given up for a device that fails nothing. Where it does not come back take it away (`echo 1 > /sys/block/NAME/device/delete`, or by its cable or server): its requests fail then, and a mirror or a tier with parity goes on without it";
            causes.lasts(now_ns, &Report { severity, cause, about: name, message, advice });
        } else {
            causes.ended("device does not answer", name, &format!("device {name} answers again"));
        }
        if let Some(why) = &device.overwritten {
            let (severity, cause) = (Severity::Error, "device overwritten");
            let message = format!("device {name}{of} is not what it was when the pool was opened: {why}");
            causes.lasts(now_ns, &Report { severity, cause, about: name, message, advice: OVERWRITTEN });
        }
        if let Some(why) = &device.damaged {
            let (severity, cause) = (Severity::Warning, "superblock damaged");
            let message = format!("device {name}{of}: {why}: the next start writes it anew");
            causes.lasts(now_ns, &Report { severity, cause, about: name, message, advice: DAMAGED });
        } else {
            causes.ended("superblock damaged", name, &format!("the superblocks of device {name} are whole again"));
        }
        let longest = device.counts.take_longest();
        if longest >= Duration::from_nanos(limits.slow_device_ns) {
            self.quick_looks = 0;
            let (severity, cause) = (Severity::Warning, "slow device");
            let message = format!("device {name} is slow: a request takes {}", text::time(longest.as_nanos() as u64));
            let advice = "Look at dmesg, at the drive's health and temperature (smartctl -a), and at who else uses it; log.slow_device sets from when on this is logged";
            causes.lasts(now_ns, &Report { severity, cause, about: name, message, advice });
        } else {
            self.quick_looks = self.quick_looks.saturating_add(1);
            if self.quick_looks >= QUICK_LOOKS {
                causes.ended("slow device", name, &format!("device {name} is not slow any more"));
            }
        }
    }
}

/// The message on a device that does not answer; `None` where its oldest request in flight is younger than the limit.
fn silence(name: &str, unanswered: Option<Duration>) -> Option<String> {
    let age = unanswered.filter(|&age| age >= UNANSWERED)?;
    Some(format!("device {name} has not answered a request for {} s: what needs it waits", age.as_secs()))
}

/// Advice on an error of a device.
fn advice_for(error: Option<&IoError>) -> &'static str {
    // ENOSPC (errno(3)): a sparse file on a full file system, or a thin-provisioned device without space.
    if error.is_some_and(|error| error.os_error == rustix::io::Errno::NOSPC.raw_os_error()) {
        "Make room where its space comes from (the file system below it, or the thin pool): what fails meanwhile is an error to hosts, and works again then, without a restart unless the pool takes no writes for its journal; a member that was left behind is rebuilt after SIGHUP. `fallocate` gives a file all its space beforehand"
    } else {
        "Look at dmesg and at the drive's health (smartctl -a); back up, and replace the device if it goes on"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::IoErrorKind;
    use forebay_device::faulty::{Fault, Target};
    use forebay_device::image::ImageDevice;
    use forebay_device::{FaultyDevice, Image, WatchedCounts, WatchedDevice, blocking};

    /// Regression: where the file system below a member was full, the advice was to replace the drive and then to
    /// restart the server, although neither was needed.
    #[test]
    fn a_device_without_space_is_not_called_broken() {
        let error = |os_error| IoError { kind: IoErrorKind::Medium, operation: "write", offset_bytes: 0, os_error };
        assert!(advice_for(Some(&error(28))).starts_with("Make room"));
        assert!(advice_for(Some(&error(28))).contains("without a restart"));
        assert!(advice_for(Some(&error(5))).contains("replace the device"));
        assert!(advice_for(None).contains("replace the device"));
    }

    /// Regression: a device that answers nothing and reports no error was logged once as slow, with the one second
    /// that its request had taken by then.
    #[test]
    fn regression_a_device_that_does_not_answer_is_named() {
        let said = "device b.img has not answered a request for 31 s: what needs it waits";
        assert_eq!(silence("b.img", Some(Duration::from_millis(31_500))).unwrap(), said);
        assert_eq!((silence("b.img", Some(Duration::from_secs(3))), silence("b.img", None)), (None, None));
    }

    /// Statistics of a device with this many failed reads.
    fn failed(reads: usize) -> WatchedCounts {
        let mut faulty = FaultyDevice::new(ImageDevice::new(Image::zeroed(1 << 20)));
        faulty.plan(Fault::range(Target::Reads, 0..1 << 20));
        let (mut device, counts) = WatchedDevice::new(Box::new(faulty));
        (0..reads).for_each(|_| assert!(blocking::read(&mut device, 0, 4096).is_err()));
        counts
    }

    /// Regression: a device that took the place of one with more errors was not reported until it had as many.
    #[test]
    fn errors_of_a_device_in_the_place_of_another_are_reported() {
        let limits = LogLimits { slow_device_ns: u64::MAX, nearly_full: 1.0, full: 1.0 };
        let (mut causes, mut watch) = (Causes::default(), DeviceWatch::default());
        let later_ns = 120_000_000_000;
        for (now_ns, errors) in [(0, 3), (1, 0), (later_ns, 1)] {
            let counts = failed(errors);
            let device = WatchedOne {
                name: "b.img",
                counts: &counts,
                member_of: Some("capacity"),
                overwritten: None,
                damaged: None,
            };
            watch.look(now_ns, &mut causes, &limits, &[device]);
        }
        let (severity, cause, message) = (Severity::Error, "device error", String::new());
        let again = Report { severity, cause, about: "b.img", message, advice: "" };
        assert!(!causes.happened(later_ns, &again), "it was logged just now");
    }
}
