//! The difference between two readings of a drive's counters.

use super::{Counters, Health, KernelOps, KernelStat, Layer, LeftOut, Media};

/// How a value changes between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A counter. There is no difference where it went down or reached its largest value.
    Grows,
    /// A counter that wraps at 2^32.
    Grows32,
    /// A counter of data units, where 0 may also mean that the drive does not report it.
    Units,
    /// A momentary state.
    State,
    /// A temperature in kelvin, printed in degrees Celsius.
    Kelvin,
    /// A bit mask, printed as such, without a difference.
    Bits,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: &'static str,
    title: &'static str,
    kind: Kind,
    before: Option<u64>,
    after: Option<u64>,
}

impl Entry {
    fn change(&self) -> Option<i128> {
        let (before, after) = (self.before?, self.after?);
        if before == u64::MAX || after == u64::MAX {
            // The counter is saturated, so its growth is unknown.
            return None;
        }
        let plain = i128::from(after) - i128::from(before);
        match self.kind {
            Kind::State | Kind::Kelvin => Some(plain),
            Kind::Bits => None,
            _ if plain >= 0 => Some(plain),
            Kind::Grows32 if before <= u64::from(u32::MAX) => Some(plain + (1 << 32)),
            Kind::Grows32 | Kind::Grows | Kind::Units => None,
        }
    }

    fn text(&self, value: Option<u64>) -> String {
        match (value, self.kind) {
            (None, _) => "-".to_owned(),
            (Some(value), Kind::Kelvin) => (i128::from(value) - 273).to_string(),
            (Some(value), Kind::Bits) => format!("{value:#04x}"),
            (Some(u64::MAX), _) => format!(">= {}", u64::MAX),
            (Some(value), _) => value.to_string(),
        }
    }

    fn change_text(&self) -> String {
        match (self.change(), self.kind) {
            (None, _) => "-".to_owned(),
            (Some(change), Kind::State | Kind::Kelvin) if change != 0 => format!("{change:+}"),
            (Some(change), _) => change.to_string(),
        }
    }
}

/// The differences between two readings.
#[derive(Clone, Debug)]
pub struct Difference {
    entries: Vec<Entry>,
    left_out: Vec<String>,
}

impl Difference {
    /// Compares two readings. Readings of different devices (a drive was exchanged, a file moved) give no values, and
    /// [`Difference::left_out`] says so.
    #[must_use]
    pub fn between(before: &Counters, after: &Counters) -> Self {
        if let Some(reason) = other_device(before, after) {
            return Self { entries: Vec::new(), left_out: vec![reason] };
        }
        let mut entries = Vec::new();
        let stat = |counters: &Counters, last: bool| {
            let layer = if last { counters.layers.last() } else { counters.layers.first() };
            layer.and_then(|layer| layer.stat)
        };
        kernel(&mut entries, DEVICE, stat(before, false), stat(after, false));
        // The drive at the bottom is shown beside the device where it is another one: its counters include the I/O of
        // everybody.
        if before.layers.len() > 1 {
            kernel(&mut entries, DRIVE, stat(before, true), stat(after, true));
        }
        health(&mut entries, before.health, after.health);
        media(&mut entries, before.media, after.media);
        Self { entries, left_out: reasons(before, after) }
    }

    /// Rows of a table: name with unit, before, after, difference. A value that neither reading has is left out; `-`
    /// stands for an unknown one. A time counter that wrapped between the readings is corrected.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String, String, String)> {
        let known = self.entries.iter().filter(|entry| entry.before.is_some() || entry.after.is_some());
        known
            .map(|entry| {
                let [before, after] = [entry.before, entry.after].map(|value| entry.text(value));
                (entry.title.to_owned(), before, after, entry.change_text())
            })
            .collect()
    }

    /// Names with the unit at their end, and the values before and after. The names do not depend on the drive,
    /// except that those of the drive below (`drive_...`) are missing where the device is the drive itself. A value
    /// too large is u64::MAX; temperatures are in kelvin.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, Option<u64>, Option<u64>)> {
        self.entries.iter().map(|entry| (entry.name, entry.before, entry.after)).collect()
    }

    /// Difference of the value with this name. `None` where a reading lacks it, where a counter went down, or where
    /// the number did not fit. Hosts' data in bytes are exact only to [`DATA_UNIT_BYTES`](super::DATA_UNIT_BYTES).
    #[must_use]
    pub fn change(&self, name: &str) -> Option<i64> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        entry.change().and_then(|change| i64::try_from(change).ok())
    }

    /// The sources without values, with the reason, a sentence each.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

fn other_device(before: &Counters, after: &Counters) -> Option<String> {
    let same = |one: &Layer, two: &Layer| {
        (&one.name, one.major, one.minor, one.sequence) == (&two.name, two.major, two.minor, two.sequence)
    };
    if before.layers.len() == after.layers.len()
        && before.layers.iter().zip(&after.layers).all(|(one, two)| same(one, two))
    {
        return None;
    }
    let names = |counters: &Counters| {
        let names: Vec<&str> = counters.layers.iter().map(|layer| layer.name.as_str()).collect();
        if names.is_empty() { "no device".to_owned() } else { names.join(" on ") }
    };
    Some(format!(
        "the readings are of different devices: {} before, {} after (or a drive exchanged under the same name)",
        names(before),
        names(after)
    ))
}

fn reasons(before: &Counters, after: &Counters) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for left in before.left_out.iter().chain(&after.left_out) {
        let text = LeftOut::to_string(left);
        if !reasons.contains(&text) {
            reasons.push(text);
        }
    }
    reasons
}

/// A field of the kernel's counters, with names and titles for the device itself and for the drive below.
type KernelField = ([&'static str; 2], [&'static str; 2], Kind, fn(&KernelStat) -> Option<u64>);
const DEVICE: usize = 0;
const DRIVE: usize = 1;

/// Names and titles of one field for the device and the drive.
macro_rules! names {
    ($name:literal, $title:literal) => {
        (
            [concat!("device_", $name), concat!("drive_", $name)],
            [concat!("device: ", $title), concat!("drive: ", $title)],
        )
    };
}

/// One row of the table of kernel fields.
macro_rules! field {
    ($name:literal, $title:literal, $kind:ident, $of:expr) => {{
        let (names, titles) = names!($name, $title);
        (names, titles, Kind::$kind, $of)
    }};
}

fn of_discards(stat: &KernelStat, of: fn(KernelOps) -> u64) -> Option<u64> {
    stat.discards.map(of)
}

const KERNEL_FIELDS: [KernelField; 17] = [
    field!("reads", "reads", Grows, |stat| Some(stat.reads.requests)),
    field!("read_merges", "reads merged", Grows, |stat| Some(stat.reads.merges)),
    field!("read_bytes", "read (bytes)", Grows, |stat| Some(stat.reads.bytes)),
    field!("read_wait_ms", "waiting time of reads (ms)", Grows32, |stat| Some(stat.reads.wait_ms)),
    field!("writes", "writes", Grows, |stat| Some(stat.writes.requests)),
    field!("write_merges", "writes merged", Grows, |stat| Some(stat.writes.merges)),
    field!("written_bytes", "written (bytes)", Grows, |stat| Some(stat.writes.bytes)),
    field!("write_wait_ms", "waiting time of writes (ms)", Grows32, |stat| Some(stat.writes.wait_ms)),
    field!("discards", "discards", Grows, |stat| of_discards(stat, |ops| ops.requests)),
    field!("discard_merges", "discards merged", Grows, |stat| of_discards(stat, |ops| ops.merges)),
    field!("discarded_bytes", "discarded (bytes)", Grows, |stat| of_discards(stat, |ops| ops.bytes)),
    field!("discard_wait_ms", "waiting time of discards (ms)", Grows32, |stat| of_discards(stat, |ops| ops.wait_ms)),
    field!("flushes", "flushes", Grows, |stat| stat.flushes.map(|(requests, _)| requests)),
    field!("flush_wait_ms", "waiting time of flushes (ms)", Grows32, |stat| stat.flushes.map(|(_, wait_ms)| wait_ms)),
    field!("in_flight", "requests in flight", State, |stat| Some(stat.in_flight)),
    field!("busy_ms", "busy (ms)", Grows32, |stat| Some(stat.busy_ms)),
    field!("wait_ms", "waiting time of all (ms)", Grows32, |stat| Some(stat.wait_ms)),
];

fn kernel(entries: &mut Vec<Entry>, which: usize, before: Option<KernelStat>, after: Option<KernelStat>) {
    entries.extend(KERNEL_FIELDS.iter().map(|(names, titles, kind, of)| Entry {
        name: names[which],
        title: titles[which],
        kind: *kind,
        before: before.as_ref().and_then(of),
        after: after.as_ref().and_then(of),
    }));
}

type HealthField = (&'static str, &'static str, Kind, fn(&Health) -> Option<u64>);

const HEALTH_FIELDS: [HealthField; 21] = [
    ("nvme_critical_warning_bits", "NVMe: critical warning (bits)", Kind::Bits, |h| {
        Some(h.critical_warning_bits.into())
    }),
    ("nvme_temperature_kelvin", "NVMe: temperature (C)", Kind::Kelvin, |h| {
        Some(h.temperature_kelvin.into()).filter(|&kelvin| kelvin != 0)
    }),
    ("nvme_available_spare_percent", "NVMe: spare left (%)", Kind::State, |h| Some(h.available_spare_percent.into())),
    ("nvme_spare_threshold_percent", "NVMe: spare threshold (%)", Kind::State, |h| {
        Some(h.spare_threshold_percent.into())
    }),
    ("nvme_percentage_used_percent", "NVMe: life used (%)", Kind::State, |h| Some(h.percentage_used_percent.into())),
    ("nvme_read_bytes", "NVMe: read by hosts (bytes)", Kind::Units, |h| Some(h.read_bytes())),
    ("nvme_written_bytes", "NVMe: written by hosts (bytes)", Kind::Units, |h| Some(h.written_bytes())),
    ("nvme_host_reads", "NVMe: read commands", Kind::Grows, |h| Some(h.host_reads)),
    ("nvme_host_writes", "NVMe: write commands", Kind::Grows, |h| Some(h.host_writes)),
    ("nvme_busy_minutes", "NVMe: busy (min)", Kind::Grows, |h| Some(h.busy_minutes)),
    ("nvme_power_cycles", "NVMe: power cycles", Kind::Grows, |h| Some(h.power_cycles)),
    ("nvme_power_on_hours", "NVMe: power-on time (h)", Kind::Grows, |h| Some(h.power_on_hours)),
    ("nvme_unsafe_shutdowns", "NVMe: unsafe shutdowns", Kind::Grows, |h| Some(h.unsafe_shutdowns)),
    ("nvme_media_errors", "NVMe: media errors", Kind::Grows, |h| Some(h.media_errors)),
    ("nvme_error_log_entries", "NVMe: error log entries", Kind::Grows, |h| Some(h.error_log_entries)),
    ("nvme_warning_temperature_minutes", "NVMe: above warning temperature (min)", Kind::Grows, |h| {
        Some(h.warning_temperature_minutes)
    }),
    ("nvme_critical_temperature_minutes", "NVMe: above critical temperature (min)", Kind::Grows, |h| {
        Some(h.critical_temperature_minutes)
    }),
    ("nvme_light_throttles", "NVMe: light thermal throttles", Kind::Grows, |h| Some(h.light_throttles)),
    ("nvme_heavy_throttles", "NVMe: heavy thermal throttles", Kind::Grows, |h| Some(h.heavy_throttles)),
    ("nvme_light_throttle_seconds", "NVMe: light thermal throttling (s)", Kind::Grows, |h| {
        Some(h.light_throttle_seconds)
    }),
    ("nvme_heavy_throttle_seconds", "NVMe: heavy thermal throttling (s)", Kind::Grows, |h| {
        Some(h.heavy_throttle_seconds)
    }),
];

fn health(entries: &mut Vec<Entry>, before: Option<Health>, after: Option<Health>) {
    entries.extend(HEALTH_FIELDS.iter().map(|&(name, title, kind, of)| {
        let [before, after] = [before, after].map(|reading| reading.as_ref().and_then(of));
        // 0 data units mean "nothing yet" or "not reported" (Figure 207). Where the second reading is 0, too, it is
        // taken for the latter.
        let reported = kind != Kind::Units || [before, after] != [Some(0), Some(0)];
        Entry { name, title, kind, before: before.filter(|_| reported), after: after.filter(|_| reported) }
    }));
}

type MediaField = (&'static str, &'static str, fn(&Media) -> u64);

const MEDIA_FIELDS: [MediaField; 2] = [
    ("ocp_media_written_bytes", "OCP: written to the medium (bytes)", |media| media.written_bytes),
    ("ocp_media_read_bytes", "OCP: read from the medium (bytes)", |media| media.read_bytes),
];

fn media(entries: &mut Vec<Entry>, before: Option<Media>, after: Option<Media>) {
    entries.extend(MEDIA_FIELDS.iter().map(|&(name, title, of)| {
        let [before, after] = [before, after].map(|reading| reading.as_ref().map(of));
        Entry { name, title, kind: Kind::Grows, before, after }
    }));
}
