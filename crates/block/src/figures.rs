//! Formats figures for people, with three digits and a unit. Tables of experiments and pictures of reports use the
//! same format.

/// A time, given in nanoseconds.
#[must_use]
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns:.0} ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A rate per second.
#[must_use]
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => format!("{:.2}M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1}k", rate / 1e3),
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.2}"),
    }
}

/// A throughput in units of 10^6 bytes per second, as data sheets and the SNIA state it.
#[must_use]
pub fn megabytes(bytes_per_second: f64) -> String {
    digits(bytes_per_second / 1e6)
}

/// A size in binary units, given in bytes.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let whole = value.fract() == 0.0;
    if whole { format!("{value:.0} {}", UNITS[unit]) } else { format!("{} {}", digits(value), UNITS[unit]) }
}

/// So many things of this name: `1 disk`, `2 disks`, `2 recoveries`, `2 lives`, `2 leaves`, `2 batches`.
#[must_use]
pub fn count(number: u64, name: &str) -> String {
    if number == 1 {
        return format!("1 {name}");
    }
    let ends = [("y", "ies"), ("fe", "ves"), ("f", "ves"), ("ch", "ches")];
    let plural = ends.into_iter().find_map(|(one, more)| Some(format!("{}{more}", name.strip_suffix(one)?)));
    format!("{number} {}", plural.unwrap_or_else(|| format!("{name}s")))
}

/// A share in percent.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number with at least three digits.
#[must_use]
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted_in_words() {
        let words: Vec<String> = ["disk", "recovery", "life", "map leaf", "batch"].map(|name| count(2, name)).into();
        assert_eq!(words, ["2 disks", "2 recoveries", "2 lives", "2 map leaves", "2 batches"]);
        assert_eq!((count(0, "finding"), count(1, "band summary")), ("0 findings".into(), "1 band summary".into()));
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let times = [(8.0, "8 ns"), (8_900.0, "8.90 us"), (25_500.0, "25.5 us"), (2.5e6, "2.50 ms"), (6e10, "60.0 s")];
        times.into_iter().for_each(|(ns, text)| assert_eq!(time(ns), text));
        assert_eq!((rate(550_000.0), rate(1.25e6), rate(12.0)), ("550.0k".into(), "1.25M".into(), "12.00".into()));
        assert_eq!((size(512), size(131_072), size(1 << 30)), ("512 B".into(), "128 KiB".into(), "1 GiB".into()));
        assert_eq!((size(1_500_000_000), megabytes(2.231e9)), ("1.40 GiB".into(), "2231".into()));
    }
}
