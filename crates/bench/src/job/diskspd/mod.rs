//! DiskSpd's command line, as its versions 2.0.17 to 2.2 read it
//! (<https://github.com/microsoft/diskspd/wiki/Command-line-and-parameters>).
//!
//! Values are attached to their option (`-b4k`, never `-b 4k`), since DiskSpd takes every word without a dash as a target. `#1` is such a
//! word; here it never selects a disk, because `--target` does.

mod options;
mod plan;
#[cfg(test)]
mod tests;
mod units;

pub use plan::DiskSpdPlan;

use super::error::JobError;
use super::validate::validate;
use units::PLACE;

/// Most words of a command line.
const MAX_WORDS: usize = 1000;

/// Reads the words after `bench --target URI`.
///
/// # Errors
/// [`JobError`]: an unknown option (with the nearest known one), a wrong value, a path among the words, two options that exclude each
/// other, or a job that [`validate`] refuses.
pub fn parse(words: &[String]) -> Result<DiskSpdPlan, JobError> {
    if words.len() > MAX_WORDS {
        return Err(JobError::form(PLACE, format!("{} words; at most {MAX_WORDS}", words.len())));
    }
    // -b first, wherever it is, since sizes of other options may be given in its blocks.
    let mut options = options::Options::with_block_size(words)?;
    for word in words {
        options.take(word)?;
    }
    let result = plan::make(options)?;
    validate(&result.plan)?;
    Ok(result)
}
