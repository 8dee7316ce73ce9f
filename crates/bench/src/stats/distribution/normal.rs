//! The normal distribution.

use super::gamma::upper_gamma;
use std::f64::consts::TAU;

/// Chance that a standard normal variable is at most `z`.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    let tail = 0.5 * upper_gamma(0.5, z * z / 2.0);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The value `z` with a chance of `p` that a standard normal variable is below it; infinite at 0 and 1.
///
/// Abramowitz and Stegun 26.2.23 (error below 4.5e-4), refined by Halley's method.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = above / below - t;
    for _ in 0..3 {
        let density = (-z * z / 2.0).exp() / TAU.sqrt();
        let step = (normal_cdf(z) - p) / density;
        z -= step / (1.0 + z * step / 2.0);
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_their_known_values() {
        for (p, want) in [
            (0.975, 1.959_963_984_540_054_2),
            (0.995, 2.575_829_303_548_901),
            (0.9, 1.281_551_565_544_600_5),
            (0.999_999, 4.753_424_308_822_899),
            (0.5, 0.0),
        ] {
            let got = normal_quantile(p);
            assert!((got - want).abs() < 1e-9, "{got} is not {want}");
            assert!((normal_cdf(got) - p).abs() < 1e-12);
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }
}
