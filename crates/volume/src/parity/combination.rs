//! Blocks that are sums of other blocks, each times a factor of GF(2^8), polynomial 29: parity, and what is restored from it.

use smallvec::SmallVec;

/// Bytes that are processed at once: eight registers of 16 bytes, in which all processors of x86-64 and ARMv8 can hold a sum from its first
/// term to its last.
const LANE_BYTES: usize = 128;

/// The factors of a sum, by their bits.
///
/// A byte times a factor is the exclusive or of the byte doubled as often as each set bit of the factor says. So the blocks whose factor
/// has the highest bit are added up, the sum is doubled, the blocks with the next bit are added, and so on (Horner): seven doublings for a
/// byte of the sum, however many blocks it has, and nothing but additions, shifts and comparisons, which compilers vectorise. A table for
/// each factor, looked up byte by byte, takes four times as long.
pub(super) struct Combination {
    by_bit: [SmallVec<[u8; 16]>; 8],
}

fn double(sum: &mut [u8; LANE_BYTES]) {
    sum.iter_mut().for_each(|byte| *byte = (*byte << 1) ^ (((*byte as i8) >> 7) as u8 & 0x1d));
}

impl Combination {
    /// For a sum of as many blocks, at most 256, as there are factors.
    pub fn new(factors: &[u8]) -> Self {
        let with = |bit: usize| factors.iter().enumerate().filter(move |(_, factor)| *factor >> bit & 1 == 1);
        Self { by_bit: std::array::from_fn(|bit| with(bit).map(|(block, _)| block as u8).collect()) }
    }

    /// Puts the sum of the blocks into `into`, which is as long as each of them.
    pub fn add_up(&self, blocks: &[&[u8]], into: &mut [u8]) {
        for (lane, into) in into.chunks_mut(LANE_BYTES).enumerate() {
            let range = lane * LANE_BYTES..lane * LANE_BYTES + into.len();
            let mut sum = [0; LANE_BYTES];
            for (bit, of) in self.by_bit.iter().enumerate().rev() {
                for &block in of {
                    let from = &blocks[block as usize][range.clone()];
                    match from.try_into() {
                        Ok(from) => add::<LANE_BYTES>(&mut sum, from),
                        Err(_) => sum.iter_mut().zip(from).for_each(|(sum, from)| *sum ^= from),
                    }
                }
                if bit > 0 {
                    double(&mut sum);
                }
            }
            into.copy_from_slice(&sum[..into.len()]);
        }
    }
}

/// The length is known at compile time, so that the sum stays in registers.
fn add<const N: usize>(sum: &mut [u8; N], from: &[u8; N]) {
    sum.iter_mut().zip(from).for_each(|(sum, from)| *sum ^= from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The product by its definition: carry-less, reduced by x^8 + x^4 + x^3 + x^2 + 1.
    fn product(a: u8, b: u8) -> u8 {
        let long = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (a as u16) << bit);
        (8..16).rev().fold(long, |sum, bit| if sum >> bit & 1 == 1 { sum ^ 0x11d << (bit - 8) } else { sum }) as u8
    }

    proptest! {
        #[test]
        fn is_the_sum_of_products(factors in prop::collection::vec(any::<u8>(), 1..20), len in 1usize..400, seed in any::<u8>()) {
            let byte = |block: usize, at: usize| (block as u8).wrapping_mul(97) ^ (at as u8).wrapping_mul(31).wrapping_add(seed);
            let blocks: Vec<Vec<u8>> = (0..factors.len()).map(|block| (0..len).map(|at| byte(block, at)).collect()).collect();
            let mut sum = vec![0xff; len];
            Combination::new(&factors).add_up(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut sum);
            for (at, found) in sum.iter().enumerate() {
                let wanted = factors.iter().zip(&blocks).fold(0, |sum, (factor, block)| sum ^ product(*factor, block[at]));
                prop_assert_eq!(*found, wanted, "byte {}", at);
            }
        }
    }
}
