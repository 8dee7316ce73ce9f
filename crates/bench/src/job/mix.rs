//! Which kinds of I/O a job makes, of which sizes, each by weight.

use forebay_block::OpKind;

/// Kinds of I/O by weight, and flushes by count.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Weights; each kind appears once, and at least one weight is positive.
    pub weights: Vec<(OpKind, u32)>,
    /// A flush of this kind ([`OpKind::Flush`] or [`OpKind::Fsync`]) after this number of writes.
    pub flush_every: Option<(OpKind, u32)>,
}

/// Size of an I/O by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeMix {
    /// Size in bytes, and weight; not empty. Sizes need not be multiples of anything; a target refuses those that it does not support.
    pub choices: Vec<(u32, u32)>,
}

/// Sizes by direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Sizes of reads.
    pub read: SizeMix,
    /// Sizes of writes.
    pub write: SizeMix,
    /// Sizes of trims.
    pub trim: SizeMix,
}

impl SizeMix {
    /// One size.
    #[must_use]
    pub fn fixed(bytes: u32) -> Self {
        Self { choices: vec![(bytes, 1)] }
    }

    /// The largest size in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u32 {
        self.choices.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
    }

    /// Mean size in bytes, by weight; 0 without weights.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        let weights: f64 = self.choices.iter().map(|&(_, weight)| f64::from(weight)).sum();
        let bytes: f64 = self.choices.iter().map(|&(bytes, weight)| f64::from(bytes) * f64::from(weight)).sum();
        if weights > 0.0 { bytes / weights } else { 0.0 }
    }
}

impl Mix {
    /// Only this kind.
    #[must_use]
    pub fn only(kind: OpKind) -> Self {
        Self { weights: vec![(kind, 100)], flush_every: None }
    }

    /// Reads and writes in percent of reads.
    #[must_use]
    pub fn reads_percent(percent: u32) -> Self {
        let weights = [(OpKind::Read, percent.min(100)), (OpKind::Write, 100 - percent.min(100))];
        Self { weights: weights.into_iter().filter(|&(_, weight)| weight > 0).collect(), flush_every: None }
    }

    /// Whether a kind of I/O in the mix changes what the target holds.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.weights.iter().any(|&(kind, weight)| weight > 0 && kind.is_destructive())
    }

    /// The kind of the flushes that occur only because they follow writes; `None` if there are none.
    #[must_use]
    pub fn added_flush(&self) -> Option<OpKind> {
        let (kind, _) = self.flush_every?;
        (!self.weights.iter().any(|&(drawn, weight)| weight > 0 && drawn == kind)).then_some(kind)
    }

    /// Kinds that may occur.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        let drawn = self.weights.iter().filter(|&&(_, weight)| weight > 0).map(|&(kind, _)| kind);
        drawn.chain(self.flush_every.map(|(kind, _)| kind))
    }

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
