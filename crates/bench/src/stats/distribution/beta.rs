//! The regularised incomplete beta function, and the binomial distribution on it.

use super::gamma::{deviance, lifted, stirling_error};
use super::{CONVERGED, STEPS_MAX};
use std::f64::consts::TAU;

/// x^a y^b Gamma(a + b + 1) / (Gamma(a + 1) Gamma(b + 1)): for integers a and b, the chance of a successes in a + b trials.
fn binomial_point(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let n = a + b;
    let exponent = stirling_error(n) - stirling_error(a) - stirling_error(b) - deviance(a, n * x) - deviance(b, n * y);
    (n / (TAU * a * b)).sqrt() * exponent.exp()
}

/// I_x(a, b), for `a` and `b` above 0. `y` is 1 - x; callers pass it because they know it more precisely than the subtraction would give.
#[must_use]
pub fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // x^a y^b / B(a, b).
    let point = binomial_point(a, b, x, y) * a * b / (a + b);
    let result = if a * y >= b * x { point / fraction(a, b, x, y) } else { 1.0 - point / fraction(b, a, y, x) };
    result.clamp(0.0, 1.0)
}

/// The continued fraction of Didonato and Morris (ACM TOMS 708, 1992; eq. 9), for x up to the mean a / (a + b). The usual one (Numerical
/// Recipes) subtracts nearly equal numbers if a is large and b is not; this one needs a y - b x, which keeps all digits because `y` is
/// given.
fn fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let lambda = a * y - b * x + 1.0;
    let mut result = lifted(a * lambda / (a + 1.0));
    let mut c = result;
    let mut d = 0.0;
    for m in 1..STEPS_MAX {
        let m = f64::from(m);
        let below = a + 2.0 * m - 1.0;
        let above = (m * (a + m - 1.0) / below) * ((a + b + m - 1.0) / below) * (b - m) * x * x;
        let whole = m + m * (b - m) * x / below + (a + m) * (lambda + m * (2.0 - x)) / (below + 2.0);
        d = lifted(whole + above * d).recip();
        c = lifted(whole + above / c);
        let change = d * c;
        result *= change;
        if (change - 1.0).abs() < CONVERGED {
            break;
        }
    }
    result
}

/// Chance of at most `k` successes in `n` trials with chance `p` each; `q` is 1 - p, passed for its precision.
#[must_use]
pub fn binomial_at_most(k: u64, n: u64, p: f64, q: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    incomplete_beta((n - k) as f64, (k + 1) as f64, q, p)
}

/// Chance of at least `k` successes in `n` trials with chance `p` each; `q` is 1 - p.
#[must_use]
pub fn binomial_at_least(k: u64, n: u64, p: f64, q: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n {
        return 0.0;
    }
    incomplete_beta(k as f64, (n - k + 1) as f64, p, q)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, relative: f64) {
        assert!((got - want).abs() <= relative * want.abs(), "{got} is not {want}");
    }

    #[test]
    fn has_its_known_values() {
        for (a, b, x, want) in [
            (2.0, 3.0, 0.4, 0.5248),
            (0.5, 0.5, 0.25, 0.333_333_333_333_333_3),
            (10.0, 20.0, 0.3, 0.364_004_081_071_944_26),
            (100.0, 200.0, 0.35, 0.732_571_464_957_544_3),
            (1.5, 9.0, 0.9, 0.999_999_996_638_415_8),
        ] {
            close(incomplete_beta(a, b, x, 1.0 - x), want, 1e-11);
        }
        assert_eq!(incomplete_beta(2.0, 2.0, 0.0, 1.0), 0.0);
        assert_eq!(incomplete_beta(2.0, 2.0, 1.0, 0.0), 1.0);
    }

    #[test]
    fn binomial_tails_keep_ten_digits_up_to_a_million_million_trials() {
        for (n, k, p, want) in [
            (9_999, 4_900, 0.5, 0.023_843_494_660_484_705),
            (29_956, 10, 5e-4, 0.119_476_825_642_007_05),
            (2_500_000, 1_248_449, 0.5, 0.024_925_237_081_123_92),
            (1_000_000_000, 80, 1e-7, 0.022_649_171_444_401_626),
            (1_000_000_000_000, 99_380, 1e-7, 0.024_966_852_622_219_08),
        ] {
            close(binomial_at_most(k, n, p, 1.0 - p), want, 1e-10);
            close(binomial_at_least(n - k, n, 1.0 - p, p), want, 1e-10);
        }
    }

    #[test]
    fn the_two_tails_add_up() {
        for k in 0..30 {
            let sum = binomial_at_most(k, 30, 0.3, 0.7) + binomial_at_least(k + 1, 30, 0.3, 0.7);
            close(sum, 1.0, 1e-13);
        }
        close(binomial_at_least(30, 30, 0.9, 0.1), 0.9_f64.powi(30), 1e-12);
        close(binomial_at_most(0, 30, 0.1, 0.9), 0.9_f64.powi(30), 1e-12);
    }
}
