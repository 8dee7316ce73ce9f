//! Logarithm and exponential function with the same bits on every machine. Those of the C library differ between versions and even between
//! CPUs (FMA variants), but a seed must give the same I/Os forever. Only +, -, *, / of IEEE 754 doubles are used, which Rust never
//! contracts.
//!
//! Method and coefficients of `ln` and `exp`: FDLIBM, `e_log.c` and `e_exp.c` (Copyright (C) 1993, 2004 by Sun
//! Microsystems, Inc.; "permission to use, copy, modify, and distribute this software is freely granted, provided
//! that this notice is preserved"). Errors are below 1 ulp there. `ln_1p` and `exp_m1` by Kahan's formulas (Higham,
//! "Accuracy and Stability of Numerical Algorithms", 1.14.1), a few ulp.

const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 1.5 * 2^52: adding and subtracting it rounds to the nearest integer, where `floor` would be a call.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// High word of sqrt(2)/2: mantissas are scaled to sqrt(2)/2..sqrt(2).
const SQRT_HALF_HIGH: u64 = 0x3fe6_a09e;

/// Natural logarithm of a positive normal number; about -709 for 0.
#[inline]
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let high = (bits >> 32) + (0x3ff0_0000 - SQRT_HALF_HIGH);
    let exponent = (high >> 20) as i64 - 0x3ff;
    let mantissa_high = (high & 0x000f_ffff) + SQRT_HALF_HIGH;
    let f = f64::from_bits((mantissa_high << 32) | (bits & 0xffff_ffff)) - 1.0;
    let half_square = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (3.999_999_999_940_942e-1 + w * (2.222_219_843_214_978_4e-1 + w * 1.531_383_769_920_937_3e-1));
    let odd = z
        * (6.666_666_666_666_735e-1
            + w * (2.857_142_874_366_239e-1 + w * (1.818_357_216_161_805e-1 + w * 1.479_819_860_511_658_6e-1)));
    let k = exponent as f64;
    s * (half_square + (even + odd)) + k * LN2_LOW - half_square + f + k * LN2_HIGH
}

/// e to the power of `x`; 0 below -700, infinite above 709.
#[inline]
pub(super) fn exp(x: f64) -> f64 {
    if x > 709.0 {
        return f64::INFINITY;
    }
    if x < -700.0 {
        return 0.0;
    }
    let k = (x * std::f64::consts::LOG2_E + ROUNDER) - ROUNDER;
    let high = x - k * LN2_HIGH;
    let low = k * LN2_LOW;
    let r = high - low;
    let rr = r * r;
    let c = r - rr
        * (1.666_666_666_666_660_2e-1
            + rr * (-2.777_777_777_701_559_3e-3
                + rr * (6.613_756_321_437_934e-5
                    + rr * (-1.653_390_220_546_525_2e-6 + rr * 4.138_136_797_057_238_5e-8))));
    let y = 1.0 + (r * c / (2.0 - c) - low + high);
    // k is -1010..=1023, so the scale is a normal number.
    y * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// ln(1 + x) without loss near 0, for x > -1.
pub(super) fn ln_1p(x: f64) -> f64 {
    let u = 1.0 + x;
    if u == 1.0 { x } else { ln(u) * x / (u - 1.0) }
}

/// exp(x) - 1 without loss near 0.
pub(super) fn exp_m1(x: f64) -> f64 {
    let u = exp(x);
    let less = u - 1.0;
    if u == 1.0 {
        x
    } else if less == -1.0 || u.is_infinite() {
        less
    } else {
        less * x / ln(u)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::Random;

    #[test]
    fn agrees_with_the_standard_library() {
        let mut random = Random::new(3);
        let close = |a: f64, b: f64| (a - b).abs() <= 8.0 * f64::EPSILON * b.abs().max(f64::MIN_POSITIVE);
        for _ in 0..100_000 {
            let unit = (random.next_u64() >> 11) as f64 * 2f64.powi(-53);
            let scale = 2f64.powi(random.below(80) as i32 - 40);
            let positive = (unit + 1e-3) * scale;
            assert!(close(ln(positive), positive.ln()) || (positive - 1.0).abs() < 1e-3, "ln {positive}");
            let any = (unit - 0.5) * 1300.0;
            assert!(close(exp(any), any.exp()), "exp {any}");
            let small = (unit - 0.5) * scale.min(1.9);
            assert!(close(ln_1p(small), small.ln_1p()), "ln_1p {small}");
            assert!(close(exp_m1(small), small.exp_m1()), "exp_m1 {small}");
        }
        assert_eq!((ln(1.0), exp(0.0), exp(-1000.0)), (0.0, 1.0, 0.0));
    }
}
