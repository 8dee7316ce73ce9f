//! How many I/Os a walk with holes has.

use super::model::{Job, Pattern, SizeMix};
use forebay_block::OpKind;

/// Number of I/Os after which the walks of a job are done ([`super::model::End::after_walks`]), on `region` (offset and length) of a target
/// of `target_bytes`; `None` if the job does not end by walks. With several kinds, the first that reaches the end ends the job, as in fio:
/// each kind makes a share of all I/Os by its weight.
#[must_use]
pub fn ios_of_walks(job: &Job, region: (u64, u64), target_bytes: u64) -> Option<u64> {
    let walks = job.end.after_walks?;
    let (offset_bytes, region_bytes) = region;
    if offset_bytes == 0 && region_bytes == target_bytes {
        return None;
    }
    let all: u64 = job.mix.weights.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let of = |&(kind, weight): &(OpKind, u32)| {
        let sizes = match kind {
            OpKind::Read => &job.sizes.read,
            OpKind::Trim => &job.sizes.trim,
            _ => &job.sizes.write,
        };
        let Pattern::Strided { stride_bytes } = *job.pattern.of(kind) else { return None };
        // Backwards, fio walks again and again until the size is done.
        let stride_bytes = u64::try_from(stride_bytes).ok().filter(|&bytes| bytes > 0)?;
        let room_bytes = region_bytes.checked_sub(least_bytes(sizes))?;
        let ios = u128::from(room_bytes / stride_bytes + 1) * u128::from(walks) * u128::from(all);
        Some(u64::try_from(ios / u128::from(weight)).unwrap_or(u64::MAX))
    };
    job.mix.weights.iter().filter(|&&(_, weight)| weight > 0).filter_map(of).min()
}

fn least_bytes(sizes: &SizeMix) -> u64 {
    sizes.choices.iter().filter(|&&(_, weight)| weight > 0).map(|&(bytes, _)| u64::from(bytes)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{End, Mix};

    /// The expected numbers are those of fio 3.33 for `rw=read:4k size=8m` and the like on a file of 64 MiB.
    #[test]
    fn regression_a_walk_with_holes_ends_at_the_end_of_its_part_of_the_target_as_in_fio() {
        let walks = |stride_bytes, after_walks| Job {
            pattern: Pattern::Strided { stride_bytes },
            end: End { after_passes: Some(1.0), after_walks, ..End::default() },
            ..Job::default()
        };
        let part = (0, 8 << 20);
        for (stride_bytes, ios) in [(8192, 1024), (24_576, 342), (16_384, 512)] {
            assert_eq!(ios_of_walks(&walks(stride_bytes, Some(1)), part, 64 << 20), Some(ios), "{stride_bytes}");
        }
        assert_eq!(ios_of_walks(&walks(8192, Some(2)), part, 64 << 20), Some(2048));
        assert_eq!(ios_of_walks(&walks(8192, Some(1)), (56 << 20, 8 << 20), 64 << 20), Some(1024));
        // The whole target is walked again and again until its size is done, and backwards any region is.
        assert_eq!(ios_of_walks(&walks(8192, Some(1)), part, 8 << 20), None);
        assert_eq!(ios_of_walks(&walks(-4096, Some(1)), part, 64 << 20), None);
        assert_eq!(ios_of_walks(&walks(8192, None), part, 64 << 20), None);
        // With two kinds, each makes half of the I/Os.
        let both = Job { mix: Mix::reads_percent(50), ..walks(8192, Some(1)) };
        assert_eq!(ios_of_walks(&both, part, 64 << 20), Some(2048));
    }
}
