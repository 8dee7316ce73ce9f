//! Checks before a run whether its jobs fit the target: a refusal of the last job should not come after the work of the first one, nor as a
//! thousand failed I/Os.

use super::error::JobError;
use super::model::{Job, Pattern, SizeMix};
use forebay_block::OpKind;

/// Checks sizes, offsets and region of a job against a target of `target_bytes` in logical blocks of `block_bytes`, which accepts I/O in
/// multiples of `granularity_bytes` (1 if it accepts any).
///
/// # Errors
/// [`JobError::Bound`] with the misfit and the granularity; [`JobError::Region`] if the region is not on the target.
pub fn check_fit(job: &Job, target_bytes: u64, block_bytes: u32, granularity_bytes: u32) -> Result<(), JobError> {
    let granularity = u64::from(granularity_bytes.max(1));
    let fits = |field: &'static str, bytes: u64| {
        if bytes.is_multiple_of(granularity) {
            return Ok(());
        }
        let reason = format!(
            "{bytes} bytes; this target takes multiples of {granularity} bytes: choose one, or buffered = true on a file"
        );
        Err(JobError::Bound { job: job.name.clone(), field, reason })
    };
    let used = |kinds: &[OpKind]| job.mix.kinds().any(|kind| kinds.contains(&kind));
    let all = |field, mix: &SizeMix| {
        let mut sizes = mix.choices.iter().filter(|&&(_, weight)| weight > 0);
        sizes.try_for_each(|&(bytes, _)| fits(field, u64::from(bytes)))
    };
    if used(&[OpKind::Read]) {
        all("size", &job.sizes.read)?;
    }
    if used(&[OpKind::Write, OpKind::WriteFua]) {
        all(if job.sizes.write == job.sizes.read { "size" } else { "size_write" }, &job.sizes.write)?;
    }
    if used(&[OpKind::Trim]) {
        all(if job.sizes.trim == job.sizes.read { "size" } else { "size_trim" }, &job.sizes.trim)?;
    }
    for pattern in job.pattern.parts() {
        match *pattern {
            Pattern::Random { align_bytes, skew_bytes } => {
                fits("align", align_bytes)?;
                fits("skew", skew_bytes)?;
            }
            Pattern::Zones { align_bytes, .. } => fits("align", align_bytes)?,
            Pattern::Strided { stride_bytes } => fits("pattern", stride_bytes.unsigned_abs())?,
            _ => {}
        }
    }
    let named = |error: JobError| match error {
        JobError::Region { reason } => JobError::Bound { job: job.name.clone(), field: "region", reason },
        other => other,
    };
    job.region.resolve(target_bytes, block_bytes).map(drop).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{Extent, Mix, Region, Sizes};

    fn sizes(read: u32, write: u32) -> Sizes {
        Sizes { read: SizeMix::fixed(read), write: SizeMix::fixed(write), trim: SizeMix::fixed(write) }
    }

    #[test]
    fn regression_what_does_not_fit_is_refused_by_name_and_granularity() {
        let random = |align_bytes, skew_bytes| Pattern::Random { align_bytes, skew_bytes };
        let reads = Job::default();
        let writes = Job { mix: Mix::only(OpKind::Write), ..Job::default() };
        for (job, what) in [
            (Job { sizes: sizes(1000, 4096), ..reads.clone() }, "size: 1000 bytes"),
            (Job { sizes: sizes(4096, 1000), ..writes.clone() }, "size_write: 1000 bytes"),
            (Job { pattern: random(100, 0), ..reads.clone() }, "align: 100 bytes"),
            (Job { pattern: random(4096, 8), ..reads.clone() }, "skew: 8 bytes"),
            (Job { pattern: Pattern::Strided { stride_bytes: -700 }, ..reads.clone() }, "pattern: 700 bytes"),
        ] {
            let error = check_fit(&job, 1 << 20, 512, 512).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("multiples of 512 bytes"), "{what}: {error}");
            // A target that accepts any I/O.
            check_fit(&job, 1 << 20, 512, 1).unwrap();
        }
        // Sizes of kinds that the job does not use do not matter.
        check_fit(&Job { sizes: sizes(4096, 1000), ..reads.clone() }, 1 << 20, 512, 512).unwrap();
        let region = Region { offset: Extent::Bytes(100), size: Extent::Bytes(0) };
        let error = check_fit(&Job { region, ..reads }, 1 << 20, 512, 1).unwrap_err().to_string();
        assert!(error.contains("region: its offset 100 is not a multiple"), "{error}");
    }
}
