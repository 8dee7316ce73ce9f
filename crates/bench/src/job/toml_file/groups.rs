//! Puts jobs into groups by `group` and `after`.

use crate::job::error::JobError;
use crate::job::model::Job;
use std::collections::{BTreeMap, HashMap};

/// A job, and its keys `group` and `after`.
pub(super) struct Placed {
    pub job: Job,
    pub place: String,
    pub after: Option<String>,
    pub group: Option<u32>,
}

/// The jobs of a file in groups by number; a job with `after` is in the group that follows the named job's. Numbers without jobs are
/// skipped.
///
/// # Errors
/// `after` names an unknown job or the job itself, makes a circle, or stands beside `group`.
pub fn in_order(jobs: Vec<Placed>) -> Result<Vec<Vec<Job>>, JobError> {
    let by_name: HashMap<&str, usize> = jobs.iter().enumerate().map(|(i, job)| (job.job.name.as_str(), i)).collect();
    let mut before = Vec::with_capacity(jobs.len());
    for job in &jobs {
        if job.group == Some(0) {
            return Err(JobError::value(&job.place, "group", "0; groups are numbered from 1"));
        }
        before.push(match &job.after {
            None => None,
            Some(_) if job.group.is_some() => {
                return Err(JobError::value(&job.place, "after", "`group` says the same: give one of the two"));
            }
            Some(name) => Some(
                *by_name
                    .get(name.as_str())
                    .ok_or_else(|| JobError::unknown(&job.place, "job in `after`", name, by_name.keys().copied()))?,
            ),
        });
    }
    let mut numbers = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        // Follows the chain to its first job; a chain longer than the number of jobs is a circle.
        let (mut at, mut steps) = (index, 0u64);
        while let Some(previous) = before[at] {
            at = previous;
            steps += 1;
            if steps > jobs.len() as u64 {
                let reason = format!("the jobs before {:?} wait for each other in a circle", job.job.name);
                return Err(JobError::value(&job.place, "after", reason));
            }
        }
        numbers.push(u64::from(jobs[at].group.unwrap_or(1)) + steps);
    }
    let mut groups: BTreeMap<u64, Vec<Job>> = BTreeMap::new();
    for (number, job) in numbers.into_iter().zip(jobs) {
        groups.entry(number).or_default().push(job.job);
    }
    Ok(groups.into_values().collect())
}
