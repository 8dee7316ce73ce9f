//! Student's t distribution, for means of few runs.

use super::beta::incomplete_beta;

/// Chance that a t variable with `degrees` degrees of freedom (above 0) is at most `t`.
#[must_use]
pub fn student_t_cdf(t: f64, degrees: f64) -> f64 {
    let whole = degrees + t * t;
    let tail = 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees / whole, t * t / whole);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The value with a chance of `p` that a t variable with `degrees` degrees of freedom (1 or more) is below it. `p` is limited to
/// 1e-9..=1-1e-9.
#[must_use]
pub fn student_t_quantile(p: f64, degrees: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, degrees);
    }
    if p <= 0.5 {
        return 0.0;
    }
    // With one degree of freedom the value at 1 - 1e-9 is 3.2e8.
    let (mut low, mut high) = (0.0_f64, 1e9_f64);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if student_t_cdf(middle, degrees) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, at_975, at_995) in [
            (1.0, 12.706_204_736_2, 63.656_741_162_9),
            (2.0, 4.302_652_729_75, 9.924_843_200_92),
            (3.0, 3.182_446_305_28, 5.840_909_309_73),
            (4.0, 2.776_445_105_2, 4.604_094_871_35),
            (5.0, 2.570_581_835_64, 4.032_142_983_56),
            (9.0, 2.262_157_162_8, 3.249_835_541_59),
            (10.0, 2.228_138_851_99, 3.169_272_672_62),
            (30.0, 2.042_272_456_3, 2.749_995_653_57),
            (127.0, 1.978_819_534_7, 2.615_096_008_43),
        ] {
            for (p, want) in [(0.975, at_975), (0.995, at_995)] {
                let got = student_t_quantile(p, degrees);
                assert!((got - want).abs() < 1e-9 * want, "{degrees}: {got} is not {want}");
                assert!((student_t_quantile(1.0 - p, degrees) + want).abs() < 1e-8 * want);
            }
        }
        assert_eq!(student_t_quantile(0.5, 4.0), 0.0);
    }
}
