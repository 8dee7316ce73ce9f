//! Conditioning as an experiment of its own.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::options::Options;
use super::prepare::apply;
use super::report::Report;
use super::session::{Session, known};
use serde_json::json;

/// Brings the target into a known state and reports what was done.
///
/// # Errors
/// [`ExperimentError`]: data would be lost, or a stage could not begin.
pub fn condition(
    driver: &mut dyn Driver,
    options: &Options,
    conditioning: Conditioning,
) -> Result<Report, ExperimentError> {
    options.refuse_writes("conditioning", "")?;
    let mut session = Session::new(driver, options)?;
    let mut done = None;
    let end = apply(conditioning, &mut session).map(|text| done = Some(text));
    known(end)?;
    if let Some(done) = &done {
        session.condition(format!("conditioning: {done}"));
    }
    let json = json!({
        "purge": conditioning.purge,
        "sequential_passes": conditioning.sequential_passes,
        "random_passes": conditioning.random_passes,
        "fill_percent": conditioning.fill_percent,
        "done": done,
    });
    let what = "Brings the target into a known state: purge and preconditioning as in the SNIA PTS 2.0.2.";
    Ok(session.finish("condition", what, Vec::new(), json))
}
