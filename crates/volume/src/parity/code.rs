//! Parity of rows, and restoring blocks from it: the exclusive or where one device may be lost, otherwise Reed-Solomon over GF(2^8) with
//! the systematic Vandermonde matrix of the crate `reed-solomon-erasure` (that of Backblaze's JavaReedSolomon, polynomial 29). The crate
//! says by which factors each block is computed from the others; [`Combination`] adds up the bytes, four times as fast as the crate does.

use super::combination::Combination;
use reed_solomon_erasure::galois_8::ReedSolomon;

/// The data of a row as it most likely is.
#[derive(Debug)]
pub(super) struct Likely {
    pub data: Vec<Vec<u8>>,
    /// How many blocks of parity agree with it, less those that were needed to restore it.
    pub agreeing: i32,
    /// How many of the blocks of parity that were read do not agree with it.
    pub disagreeing: i32,
}

impl Likely {
    /// Whether all parity that was read agrees, or some that was not needed does.
    pub fn is_sure(&self) -> bool {
        self.agreeing > 0 || self.disagreeing == 0
    }
}

/// Computes parity.
pub(super) struct Code {
    data: usize,
    parity: usize,
    /// `None` where the exclusive or is enough.
    several: Option<Several>,
}

struct Several {
    matrix: ReedSolomon,
    parity: Vec<Combination>,
}

impl Several {
    fn new(data: usize, parity: usize) -> Option<Self> {
        let matrix = ReedSolomon::new(data, parity).ok()?;
        // Parity is linear: the parity of blocks that have a one at a single place each is their factors.
        let ones: Vec<Vec<u8>> = (0..data).map(|at| one_at(at, data)).collect();
        let mut factors = vec![vec![0; data]; parity];
        matrix.encode_sep(&ones, &mut factors).ok()?;
        Some(Self { matrix, parity: factors.iter().map(|factors| Combination::new(factors)).collect() })
    }

    /// Restores the missing blocks; false where too many are missing.
    fn restore(&self, blocks: &mut [Option<Vec<u8>>]) -> bool {
        let there: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].is_some()).collect();
        let mut factors: Vec<Option<Vec<u8>>> = vec![None; blocks.len()];
        for (number, &at) in there.iter().enumerate() {
            factors[at] = Some(one_at(number, there.len()));
        }
        if self.matrix.reconstruct(&mut factors).is_err() {
            return false;
        }
        let known: Vec<&[u8]> = blocks.iter().flatten().map(Vec::as_slice).collect();
        let len_bytes = known.first().map_or(0, |block| block.len());
        if known.iter().any(|block| block.len() != len_bytes) {
            return false;
        }
        let restored: Vec<Option<Vec<u8>>> = blocks
            .iter()
            .zip(&factors)
            .map(|(block, factors)| match (block, factors) {
                (None, Some(factors)) => {
                    let mut sum = vec![0; len_bytes];
                    Combination::new(factors).add_up(&known, &mut sum);
                    Some(sum)
                }
                _ => None,
            })
            .collect();
        blocks.iter_mut().zip(restored).filter(|(block, _)| block.is_none()).for_each(|(block, sum)| *block = sum);
        true
    }
}

fn one_at(at: usize, len: usize) -> Vec<u8> {
    (0..len).map(|place| (place == at) as u8).collect()
}

fn xor(into: &mut [u8], from: &[u8]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into ^= from);
}

impl Code {
    /// For rows of `data` blocks of data and `parity` blocks of parity, as a shape may have them.
    pub fn new(data: usize, parity: usize) -> Self {
        let several = if parity > 1 { Several::new(data, parity) } else { None };
        Self { data, parity, several }
    }

    /// Computes the parity of blocks of equal length, into blocks of that length.
    pub fn encode_into(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        match (&self.several, parity) {
            (Some(code), parity) => {
                code.parity.iter().zip(parity).for_each(|(sum, into)| sum.add_up(data, into));
            }
            (None, [sum, ..]) => {
                sum.copy_from_slice(data[0]);
                data[1..].iter().for_each(|block| xor(sum, block));
            }
            (None, []) => {}
        }
    }

    /// The same, into new blocks.
    pub fn encode(&self, data: &[&[u8]]) -> Vec<Vec<u8>> {
        let len_bytes = data.first().map_or(0, |block| block.len());
        let mut parity = vec![vec![0; len_bytes]; self.parity];
        let mut blocks: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        self.encode_into(data, &mut blocks);
        parity
    }

    /// Whether all data of a row was read, and all parity that was read agrees with it, one block at least. Parity that agrees shows nothing beside
    /// other parity that does not: a block may have been computed from it and from another one that has rotten.
    pub fn agrees(&self, read: &[Option<Vec<u8>>]) -> bool {
        let needed = read[..self.data].iter().any(Option::is_none);
        !needed && self.leaving_out(read, &[]).is_some_and(|likely| likely.agreeing > 0 && likely.disagreeing == 0)
    }

    /// Whether nothing that was read of a row contradicts the rest of it.
    pub fn fits(&self, read: &[Option<Vec<u8>>]) -> bool {
        self.leaving_out(read, &[]).is_none_or(|likely| likely.disagreeing == 0)
    }

    /// The data of a row as it most likely is, where one block that was read may be wrong, or two where there are three of parity. Of all
    /// ways to leave out such blocks it takes the one with which most parity agrees that was not needed to restore. `sure`: one bit for
    /// each block that is right. `None` where too much is missing.
    pub fn likely(&self, read: &[Option<Vec<u8>>], sure: u32) -> Option<Likely> {
        let mut best = self.leaving_out(read, &[])?;
        let agreeing = best.agreeing;
        let there: Vec<usize> = (0..read.len()).filter(|&at| read[at].is_some() && sure & 1 << at == 0).collect();
        let mut consider = |out: &[usize]| {
            if let Some(other) = self.leaving_out(read, out).filter(|other| other.agreeing > best.agreeing.max(0)) {
                best = other;
            }
        };
        // Nothing is tried where all parity agrees, or where one block of parity is too little to judge by.
        let missing = read.iter().filter(|block| block.is_none()).count();
        if agreeing < (self.parity - missing.min(self.parity)) as i32 && self.parity > 1 {
            there.iter().for_each(|&one| consider(&[one]));
            if self.parity > 2 {
                let pairs = there.iter().flat_map(|&one| there.iter().map(move |&other| [one, other]));
                pairs.filter(|[one, other]| one < other).for_each(|pair| consider(&pair));
            }
        }
        Some(best)
    }

    /// The data of a row without the blocks `out`, and how many blocks of parity agree with it, less those that were needed.
    fn leaving_out(&self, read: &[Option<Vec<u8>>], out: &[usize]) -> Option<Likely> {
        let mut blocks = read.to_vec();
        out.iter().for_each(|&at| blocks[at] = None);
        let needed = blocks[..self.data].iter().filter(|block| block.is_none()).count() as i32;
        if needed > 0 && !self.restore(&mut blocks) {
            return None;
        }
        let data: Vec<Vec<u8>> = blocks.into_iter().take(self.data).collect::<Option<_>>()?;
        let sums = self.encode(&slices(&data));
        let agrees = |(at, sum): &(usize, &Vec<u8>)| {
            !out.contains(&(self.data + at)) && read[self.data + at].as_ref() == Some(*sum)
        };
        let there = (0..sums.len()).filter(|at| !out.contains(&(self.data + at)) && read[self.data + at].is_some());
        let (there, agreeing) = (there.count() as i32, sums.iter().enumerate().filter(agrees).count() as i32);
        Some(Likely { data, agreeing: agreeing - needed, disagreeing: there - agreeing })
    }

    /// Corrects restored rows, which lie one behind the other in blocks of `block` bytes, where parity that was not needed contradicts them
    /// and more parity agrees with something else. With two blocks of parity it can be known that something is wrong, with three what it
    /// is.
    pub fn correct(&self, read: &[Option<Vec<u8>>], restored: &mut [Option<Vec<u8>>], block: usize) {
        if read.iter().flatten().count() <= self.data || read.len() != restored.len() {
            return;
        }
        let cut = |blocks: &[Option<Vec<u8>>], at: usize| -> Vec<Option<Vec<u8>>> {
            blocks.iter().map(|bytes| Some(bytes.as_ref()?.get(at..at + block)?.to_vec())).collect()
        };
        let len_bytes = restored.iter().flatten().map(Vec::len).min().unwrap_or(0);
        for at in (0..len_bytes).step_by(block) {
            let data: Option<Vec<Vec<u8>>> = cut(restored, at).into_iter().take(self.data).collect();
            let (Some(data), read) = (data, cut(read, at)) else { continue };
            let sums = self.encode(&slices(&data));
            if read[self.data..].iter().zip(&sums).all(|(read, sum)| read.as_ref().is_none_or(|read| read == sum)) {
                continue;
            }
            let Some(likely) = self.likely(&read, 0).filter(|likely| likely.agreeing > 0) else { continue };
            let sums = self.encode(&slices(&likely.data));
            for (bytes, right) in restored.iter_mut().zip(likely.data.iter().chain(&sums)) {
                if let Some(bytes) = bytes {
                    bytes[at..at + block].copy_from_slice(right);
                }
            }
        }
    }

    /// Restores the missing blocks, of data and of parity; false where too many are missing.
    pub fn restore(&self, blocks: &mut [Option<Vec<u8>>]) -> bool {
        let there = blocks.iter().flatten().count();
        if blocks.len() != self.data + self.parity || there < self.data {
            return false;
        }
        let Some(code) = &self.several else {
            let len_bytes = blocks.iter().flatten().next().map_or(0, Vec::len);
            if let Some(missing) = blocks.iter().position(Option::is_none) {
                let mut sum = vec![0; len_bytes];
                blocks.iter().flatten().for_each(|block| xor(&mut sum, block));
                blocks[missing] = Some(sum);
            }
            return true;
        };
        code.restore(blocks)
    }
}

/// Blocks as slices, from which parity is computed.
pub(super) fn slices(blocks: &[Vec<u8>]) -> Vec<&[u8]> {
    blocks.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
        (2usize..=16, 1usize..=3, any::<u8>()).prop_map(|(data, parity, seed)| {
            let parity = parity.min(data - 1);
            let bytes = (0..data * 64).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) ^ (at / 7) as u8);
            (data, parity, bytes.collect())
        })
    }

    proptest! {
        /// What is lost, up to as many blocks as there are of parity, is restored; and a second library restores the same data from its own
        /// parity.
        #[test]
        fn what_is_lost_comes_back(((data, parity, bytes), lost) in (rows(), any::<u64>())) {
            let code = Code::new(data, parity);
            let blocks: Vec<&[u8]> = bytes.chunks(64).collect();
            let sums = code.encode(&blocks);
            let whole: Vec<Vec<u8>> = blocks.iter().map(|block| block.to_vec()).chain(sums).collect();
            let mut left: Vec<Option<Vec<u8>>> = whole.iter().cloned().map(Some).collect();
            let mut gone = Vec::new();
            for at in 0..parity {
                let number = (lost >> (8 * at)) as usize % (data + parity);
                left[number] = None;
                gone.push(number);
            }
            let second = reed_solomon_simd::encode(data, parity, &blocks).unwrap();
            let kept = (0..data).filter(|at| !gone.contains(at)).map(|at| (at, blocks[at]));
            let other = reed_solomon_simd::decode(data, parity, kept, second.iter().enumerate()).unwrap();
            prop_assert!(code.restore(&mut left));
            for (at, block) in left.iter().enumerate() {
                prop_assert_eq!(block.as_ref(), whole.get(at), "block {}", at);
                if let Some(same) = other.get(&at) {
                    prop_assert_eq!(Some(same), block.as_ref());
                }
            }
        }

        #[test]
        fn more_than_there_is_parity_for_does_not((data, parity, bytes) in rows()) {
            let code = Code::new(data, parity);
            let blocks: Vec<&[u8]> = bytes.chunks(64).collect();
            let sums = code.encode(&blocks);
            let whole = blocks.iter().map(|block| block.to_vec()).chain(sums);
            let mut left: Vec<Option<Vec<u8>>> = whole.map(Some).collect();
            left[..=parity].fill(None);
            prop_assert!(!code.restore(&mut left));
        }
    }
}
