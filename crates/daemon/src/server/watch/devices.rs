//! Devices that fail requests or are slow, for the log.

use crate::config::LogLimits;
use crate::log::{Causes, Report, Severity};
use crate::pool::{UNANSWERED, WatchedOne};
use crate::text;
use forebay_block::IoError;
use std::time::Duration;

/// A device is well again after so many looks without a slow request.
const QUICK_LOOKS: u32 = 30;

/// What to do about a device that somebody else has written to, and that cannot be done without.
const OVERWRITTEN: &str = "Find out who writes to it, and end that. Copy what can still be read of the pool's disks before anything else: what lay there is gone, and the next start may refuse this device (docs/when-a-device-fails.md)";

/// What to do about one of which a superblock has lost a part.
const DAMAGED: &str = "Find out who writes to it (a tool that wiped the first sectors, say), and let a scrub read the rest of it (`forebay scrub`). Without a start it stays in use as it is, as long as the other copies are whole";

/// What is known of a device.
struct Known {
    name: String,
    errors: u64,
    quick_looks: u32,
}

/// What is known of the devices that were seen.
#[derive(Default)]
pub struct DeviceWatch {
    known: Vec<Known>,
}

impl DeviceWatch {
    /// Looks at all devices.
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
        // Fewer than before are those of another device in its place.
        self.errors = counts.errors;
        if let Some(message) = silence(name, counts.unanswered) {
            let (severity, cause) = (Severity::Error, "device does not answer");
            let advice = "Look at dmesg. A mirror or a tier with parity goes on without a member that has not answered for 60 s, where enough others answer; anything else waits. Where the device does not come back take it away (`echo 1 > /sys/block/NAME/device/delete`, or by its cable or server): its requests fail then";
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

/// What is said of a device whose oldest request in flight has this age, where it does not answer.
fn silence(name: &str, unanswered: Option<Duration>) -> Option<String> {
    let age = unanswered.filter(|&age| age >= UNANSWERED)?;
    Some(format!("device {name} has not answered a request for {} s: what needs it waits", age.as_secs()))
}

/// What to do about an error of a device.
fn advice_for(error: Option<&IoError>) -> &'static str {
    // ENOSPC of errno(3): a sparse file on a file system that is full, or thin provisioning without space.
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

    /// Who had a full file system below a member was sent to replace the drive, and then to restart the server, which nothing waits for.
    #[test]
    fn a_device_without_space_is_not_called_broken() {
        let error = |os_error| IoError { kind: IoErrorKind::Medium, operation: "write", offset_bytes: 0, os_error };
        assert!(advice_for(Some(&error(28))).starts_with("Make room"));
        assert!(advice_for(Some(&error(28))).contains("without a restart"));
        assert!(advice_for(Some(&error(5))).contains("replace the device"));
        assert!(advice_for(None).contains("replace the device"));
    }

    /// A device without an error that answers nothing was called slow, once, with the second that it had taken by then.
    #[test]
    fn regression_a_device_that_does_not_answer_is_named() {
        let said = "device b.img has not answered a request for 31 s: what needs it waits";
        assert_eq!(silence("b.img", Some(Duration::from_millis(31_500))).unwrap(), said);
        assert_eq!((silence("b.img", Some(Duration::from_secs(3))), silence("b.img", None)), (None, None));
    }

    /// A device that has failed so many reads.
    fn failed(reads: usize) -> WatchedCounts {
        let mut faulty = FaultyDevice::new(ImageDevice::new(Image::zeroed(1 << 20)));
        faulty.plan(Fault::range(Target::Reads, 0..1 << 20));
        let (mut device, counts) = WatchedDevice::new(Box::new(faulty));
        (0..reads).for_each(|_| assert!(blocking::read(&mut device, 0, 4096).is_err()));
        counts
    }

    /// Another device under the name of one that had failed more requests was not reported until it had failed as many.
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
