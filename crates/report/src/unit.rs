//! Units of shown numbers.

use forebay_block::figures;

/// Unit of a number of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number without a unit.
    Plain,
    /// A count, shown with all digits.
    Count,
    /// Nanoseconds.
    Ns,
    /// Seconds.
    Seconds,
    /// Events per second.
    Rate,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// A fraction of 1.
    Share,
    /// Percent.
    Percent,
    /// A ratio of two numbers.
    Ratio,
}

impl Unit {
    /// Formats a number with its unit for people.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Plain => figures::digits(value),
            Self::Count => format!("{value}"),
            Self::Ns => figures::time(value),
            Self::Seconds => figures::time(value * 1e9),
            Self::Rate => figures::rate(value),
            // No size exceeds 64 bits; the cast saturates.
            Self::Bytes => figures::size(value as u64),
            Self::BytesPerSecond => format!("{} MB/s", figures::megabytes(value)),
            Self::Share => figures::percent(value),
            Self::Percent => format!("{} %", figures::digits(value)),
            Self::Ratio => format!("{value:.3}"),
        }
    }

    /// Formats a number for a tick of an axis, without trailing zeros.
    pub(crate) fn tick(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let text = self.show(value);
        // A number other than zero is never shown as zero.
        let text = if text.contains(|c: char| ('1'..='9').contains(&c)) { text } else { self.small(value) };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if !number.contains('.') {
            return text;
        }
        format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Formats a number that the usual digits would show as zero, in the smallest of its units.
    fn small(self, value: f64) -> String {
        let (value, unit) = match self {
            Self::Share => (value * 100.0, " %"),
            Self::Percent => (value, " %"),
            Self::BytesPerSecond => (value / 1e6, " MB/s"),
            Self::Ns => (value, " ns"),
            Self::Seconds => (value * 1e9, " ns"),
            Self::Bytes => (value, " B"),
            Self::Plain | Self::Count | Self::Rate | Self::Ratio => (value, ""),
        };
        let digits = (1.0 - value.abs().log10().floor()).clamp(0.0, 15.0) as usize;
        format!("{value:.digits$}{unit}")
    }

    /// Unit of the raw numbers, for column headings.
    pub(crate) fn raw(self) -> &'static str {
        match self {
            Self::Plain | Self::Count | Self::Ratio => "",
            Self::Ns => "ns",
            Self::Seconds => "s",
            Self::Rate => "1/s",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes/s",
            Self::Share => "of 1",
            Self::Percent => "percent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_zeros_at_their_end() {
        let cases =
            [(Unit::Ns, 1e4, "10 us"), (Unit::Ns, 2.5e6, "2.5 ms"), (Unit::Rate, 0.0, "0"), (Unit::Rate, 5e5, "500k")];
        for (unit, value, text) in cases {
            assert_eq!(unit.tick(value), text);
        }
        // These were shown as 0 on a logarithmic axis.
        let small = [(Unit::Plain, 0.001, "0.001"), (Unit::Plain, 1.5e-4, "0.00015"), (Unit::Share, 2e-4, "0.02 %")];
        for (unit, value, text) in small.into_iter().chain([(Unit::Ns, 0.1, "0.1 ns"), (Unit::Bytes, 0.5, "0.5 B")]) {
            assert_eq!(unit.tick(value), text);
        }
        assert_eq!((Unit::Share.tick(0.2), Unit::Bytes.tick(1048576.0)), ("20 %".to_owned(), "1 MiB".to_owned()));
    }
}
