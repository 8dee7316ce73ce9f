//! fio's job files (<https://fio.readthedocs.io/en/latest/fio_doc.html>), for the keys that measure block I/O.
//!
//! A job means the same as in fio, including its defaults: through the page cache unless `direct=1`, synchronous unless `ioengine` says
//! otherwise, every block once in random order unless `norandommap`, until `size` bytes per clone were transferred or `runtime` is over.
//! Features that do not exist here are refused if something else would be measured, otherwise noted. Files and disks are never taken from
//! the job: `--target` names the target.

mod access;
mod convert;
mod direction;
mod expand;
mod ini;
mod keys;
mod pace;
mod reader;
mod sizes;
mod steady;
#[cfg(test)]
mod tests;
mod units;

use super::error::JobError;
use super::length::check_length;
use super::model::{Job, Plan};
use super::validate::{MAX_JOBS, validate};
use expand::Surroundings;
use reader::Notes;

/// Reads a job file; errors name it `name`. `${VARIABLES}` come from the environment.
///
/// # Errors
/// [`JobError`] with the line: unknown keys and engines with the nearest known one, wrong values, features without an equivalent here, and
/// jobs that [`validate`] refuses.
pub fn parse(text: &str, name: &str) -> Result<Plan, JobError> {
    parse_in(text, name, &Surroundings::of_this_machine())
}

fn parse_in(text: &str, name: &str, surroundings: &Surroundings<'_>) -> Result<Plan, JobError> {
    check_length(name, text.len())?;
    let sections = ini::sections(text, name, surroundings)?;
    let mut notes = Notes::default();
    let mut groups = Groups::default();
    for (index, section) in sections.iter().enumerate() {
        let converted = convert::convert(section, index, name, &mut notes)?;
        let waits = converted.wait_for.is_some_and(|before| groups.is_running(&before));
        if waits {
            notes.add(&section.name, "`wait_for`: it waits for all jobs of the group before, as with stonewall.");
        }
        if converted.stonewall || waits {
            groups.close();
        }
        groups.running.extend(converted.jobs);
        groups.read_back.extend(converted.read_back);
        groups.total += 1;
        if groups.running.len() + groups.done.iter().map(Vec::len).sum::<usize>() > MAX_JOBS {
            return Err(JobError::form(name, format!("more than {MAX_JOBS} jobs")));
        }
    }
    groups.close();
    let plan = Plan { groups: groups.done, notes: notes.into_sentences(groups.total) };
    validate(&plan)?;
    Ok(plan)
}

/// The jobs between two stone walls.
#[derive(Default)]
struct Groups {
    done: Vec<Vec<Job>>,
    running: Vec<Job>,
    read_back: Vec<Job>,
    total: usize,
}

impl Groups {
    fn is_running(&self, name: &str) -> bool {
        self.running.iter().any(|job| job.name == name)
    }

    /// Ends the group, and reads back what it wrote before the next group begins.
    fn close(&mut self) {
        for jobs in [std::mem::take(&mut self.running), std::mem::take(&mut self.read_back)] {
            if !jobs.is_empty() {
                self.done.push(jobs);
            }
        }
    }
}
