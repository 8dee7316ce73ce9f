//! The few distributions that intervals and tests need. They are accurate for sample counts up to 10^12, where differences of log-gammas
//! would have lost their digits.
//!
//! Point probabilities are Loader's ("Fast and accurate computation of binomial probabilities", 2000): deviance and Stirling error instead
//! of factorials. Tails are continued fractions by Lentz's method, with these probabilities as prefactors. (The function of the statrs
//! crate takes only x, so the digits of a tail of 10^-7 are lost before it begins; and these few functions are smaller than a dependency.)

mod beta;
mod gamma;
mod normal;
mod student;

pub use beta::{binomial_at_least, binomial_at_most, incomplete_beta};
pub use gamma::{chi_square_tail, upper_gamma};
pub use normal::{normal_cdf, normal_quantile};
pub use student::{student_t_cdf, student_t_quantile};

/// Terms of a continued fraction below this are raised to it, so that nothing is divided by zero.
const TINY: f64 = 1e-300;

/// Relative change of a continued fraction at which it has converged.
const CONVERGED: f64 = 3e-16;

/// Steps after which a continued fraction or series is used as it is. Near the centre they need about the square root of their largest
/// parameter, in the tails fewer.
const STEPS_MAX: u32 = 200_000;
