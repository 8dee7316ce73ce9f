//! Mean sizes, to convert a rate in bytes to I/Os.

use super::model::{Mix, SizeMix, Sizes};
use forebay_block::OpKind;

impl SizeMix {
    /// Mean size in bytes, by weight; 0 without weights.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        let weights: f64 = self.choices.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let bytes: f64 = self.choices.iter().map(|&(bytes, weight)| f64::from(bytes) * f64::from(weight)).sum();
        if weights > 0.0 { bytes / weights } else { 0.0 }
    }
}

impl Mix {
    /// Mean bytes of the I/Os drawn by weight; flushes count as 0. 0 without weights.
    #[must_use]
    pub fn mean_bytes(&self, sizes: &Sizes) -> f64 {
        let weights: f64 = self.weights.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let bytes = self.weights.iter().map(|&(kind, weight)| {
            let mean = match kind {
                OpKind::Read => sizes.read.mean_bytes(),
                OpKind::Write | OpKind::WriteFua => sizes.write.mean_bytes(),
                OpKind::Trim => sizes.trim.mean_bytes(),
                OpKind::Flush | OpKind::Fsync => 0.0,
            };
            mean * f64::from(weight)
        });
        if weights > 0.0 { bytes.sum::<f64>() / weights } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_count() {
        let read = SizeMix { choices: vec![(4096, 3), (8192, 1)] };
        assert_eq!(read.mean_bytes(), 5120.0);
        let sizes = Sizes { read, write: SizeMix::fixed(1024), trim: SizeMix::fixed(512) };
        let mix = Mix { weights: vec![(OpKind::Read, 1), (OpKind::Write, 2), (OpKind::Flush, 1)], flush_every: None };
        assert_eq!(mix.mean_bytes(&sizes), (5120.0 + 2048.0) / 4.0);
        assert_eq!(Mix { weights: Vec::new(), flush_every: None }.mean_bytes(&sizes), 0.0);
    }
}
