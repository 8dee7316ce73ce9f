//! An axis: the mapping from numbers to coordinates, and the ticks.

use crate::unit::Unit;

/// Maximum number of ticks of an axis.
const TICKS_MAX: usize = 7;
/// The least number whose logarithm is taken; smaller numbers are drawn at the end of the axis.
const LEAST: f64 = 1e-12;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Linear.
    Linear,
    /// Linear, including zero.
    FromZero,
    /// Logarithmic.
    Log,
    /// Logarithmic with ticks at powers of 2.
    Octaves,
    /// Percentiles by their distance from 100: 90, 99, 99.9 are equally spaced.
    Nines,
}

/// An axis without its range.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) form: Form,
}

/// An axis with its range.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    form: Form,
    unit: Unit,
    /// Ends of the range, after [`Form::place`].
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Form {
    /// Position of a number on the scale, before it is stretched to the picture.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::FromZero => value,
            Self::Log => value.max(LEAST).log10(),
            Self::Octaves => value.max(LEAST).log2(),
            Self::Nines => -(1.0 - value.clamp(0.0, 99.999_999_99) / 100.0).log10(),
        }
    }
}

impl Axis {
    pub(crate) fn new(title: impl Into<String>, unit: Unit, form: Form) -> Self {
        Self { title: title.into(), unit, form }
    }

    /// The axis over the range of `values`, drawn from coordinate `from` to `to`.
    pub(crate) fn over(&self, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let is_log = matches!(self.form, Form::Log | Form::Octaves);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite() && !(is_log && *value <= 0.0)) {
            let place = self.form.place(value);
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        match self.form {
            Form::FromZero => {
                (low, high) = (low.min(0.0), high.max(0.0));
                high += (high - low) * 0.06;
            }
            Form::Nines => (low, high) = (0.0, high.max(1.0)),
            Form::Log => (low, high) = (low - 0.06, high + 0.06),
            Form::Octaves => (low, high) = (low - 0.2, high + 0.2),
            Form::Linear => {}
        }
        if high - low < 1e-9 * high.abs().max(1e-9) {
            let half = if is_log { 0.3 } else { high.abs().max(1.0) * 0.1 };
            (low, high) = (low - half, high + half);
        }
        // Keeps the arithmetic from overflowing near the largest numbers.
        (low, high) = (low.clamp(-1e300, 1e300), high.clamp(-1e300, 1e300));
        Scale { form: self.form, unit: self.unit, low, high, from, to }
    }
}

impl Scale {
    /// The coordinate of a number; numbers outside the range are drawn at its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.stretched(self.form.place(value))
    }

    /// The ends of a linear axis; none for other scales, which cannot be zoomed.
    pub(crate) fn even_ends(&self) -> Option<(f64, f64)> {
        matches!(self.form, Form::Linear | Form::FromZero).then_some((self.low, self.high))
    }

    fn stretched(&self, place: f64) -> f64 {
        let share = ((place - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Coordinates and labels of the ticks.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        match self.form {
            Form::Linear | Form::FromZero => self.even_ticks(),
            Form::Log => self.log_ticks(),
            Form::Octaves => self.octave_ticks(),
            Form::Nines => self.nines_ticks(),
        }
    }

    fn even_ticks(&self) -> Vec<(f64, String)> {
        self.even_ticks_between(self.low, self.high)
    }

    fn even_ticks_between(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        let span = high - low;
        let rough = span / (TICKS_MAX - 2) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        // Ticks of sizes are multiples of powers of 2.
        let step = if self.unit == Unit::Bytes { 2f64.powf(rough.log2().ceil()) } else { round };
        let first = (low / step).ceil();
        let values = (0..TICKS_MAX * 2).map(|at| (first + at as f64) * step);
        // Sums of steps can miss zero slightly.
        let values = values.map(|value| if value.abs() < step * 1e-6 { 0.0 } else { value });
        values
            .take_while(|value| *value <= high + step * 1e-6)
            .map(|value| (self.at(value), self.words(value, step)))
            .collect()
    }

    /// Numbers without a unit may be far from zero and close together: they get as many digits as the step needs.
    fn words(&self, value: f64, step: f64) -> String {
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        if self.unit == Unit::Plain && value.abs() < 1e7 { format!("{value:.digits$}") } else { self.unit.tick(value) }
    }

    fn log_ticks(&self) -> Vec<(f64, String)> {
        let decades = self.high - self.low;
        if decades < 0.3 {
            return self.even_ticks_between(10f64.powf(self.low), 10f64.powf(self.high));
        }
        let within: &[f64] = match decades {
            decades if decades < 0.9 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            decades if decades < 2.2 => &[1.0, 2.0, 5.0],
            decades if decades < 3.3 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = ((decades / TICKS_MAX as f64).ceil() as i64).max(1);
        let (first, last) = (self.low.floor() as i64, self.high.ceil() as i64);
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let values = powers.flat_map(|power| within.iter().map(move |by| by * 10f64.powi(power as i32)));
        let inside = values.filter(|value| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10()));
        let found: Vec<f64> = inside.collect();
        let keep_every = found.len().div_ceil(TICKS_MAX + 1).max(1);
        found.into_iter().step_by(keep_every).map(|value| self.tick(value)).collect()
    }

    fn octave_ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = (self.low.ceil() as i64, self.high.floor() as i64);
        let every = ((last - first) as f64 / (TICKS_MAX - 1) as f64).ceil().max(1.0) as usize;
        (first..=last).step_by(every).map(|power| self.tick(2f64.powi(power as i32))).collect()
    }

    fn nines_ticks(&self) -> Vec<(f64, String)> {
        let nines = (1..=9).map(|count| 100.0 - 10f64.powi(2 - count));
        let all = [50.0].into_iter().chain(nines).filter(|value| self.form.place(*value) <= self.high + 1e-9);
        all.map(|value| (self.at(value), format!("{}", (value * 1e8).round() / 1e8))).collect()
    }

    fn tick(&self, value: f64) -> (f64, String) {
        (self.at(value), self.unit.tick(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(form: Form, unit: Unit, values: &[f64]) -> Vec<String> {
        let scale = Axis::new("", unit, form).over(values.iter().copied(), 0.0, 100.0);
        scale.ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(words(Form::FromZero, Unit::Rate, &[5e5]), ["0", "200k", "400k"]);
        assert_eq!(
            words(Form::FromZero, Unit::Bytes, &[4.5 * 1073741824.0]),
            ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]
        );
        assert_eq!(words(Form::Log, Unit::Ns, &[9e3, 2e6]), ["10 us", "30 us", "100 us", "300 us", "1 ms"]);
        assert_eq!(words(Form::Log, Unit::Ns, &[9e3, 1.2e5]), ["10 us", "20 us", "50 us", "100 us"]);
        assert_eq!(words(Form::Log, Unit::Ratio, &[0.9, 1.1]), ["0.8", "0.9", "1", "1.1", "1.2"]);
        assert_eq!(words(Form::Linear, Unit::Plain, &[1520.9, 1522.1]), ["1521.0", "1521.5", "1522.0"]);
        assert_eq!(words(Form::Nines, Unit::Percent, &[50.0, 99.99]), ["50", "90", "99", "99.9", "99.99"]);
        assert_eq!(words(Form::Octaves, Unit::Bytes, &[1048576.0, 4194304.0]), ["1 MiB", "2 MiB", "4 MiB"]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_lies_on_it_ticks_are_few_and_inside(values in proptest::collection::vec(proptest::num::f64::ANY, 0..9)) {
            for form in [Form::Linear, Form::FromZero, Form::Log, Form::Octaves, Form::Nines] {
                let scale = Axis::new("", Unit::Plain, form).over(values.iter().copied(), 10.0, 110.0);
                let ticks = scale.ticks();
                proptest::prop_assert!(ticks.len() <= 2 * TICKS_MAX, "{form:?} {values:?}: {ticks:?}");
                for place in ticks.iter().map(|tick| tick.0).chain(values.iter().filter(|v| v.is_finite()).map(|v| scale.at(*v))) {
                    proptest::prop_assert!((10.0..=110.0).contains(&place), "{form:?} {values:?}: {place}");
                }
            }
        }
    }
}
