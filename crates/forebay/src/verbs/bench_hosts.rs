//! `forebay bench` on several hosts: each job runs on all of them at the same time.

use super::bench_abreast::{self, split};
use super::bench_result::{Contents, Frame, counters_table, verdict, write_files};
use crate::hosts::{Command, Coordinated, DriveCounters, HostName, OfHost, Work, coordinate};
use crate::measure::{self, BenchOptions, JobSource, Named, by_job, interval_of_jobs, job_table};
use crate::output::{self, Format, time};
use anyhow::{Result, anyhow, bail};
use forebay_bench::job::model::{Evidence, Job, Plan};
use forebay_bench::output::summary::{self, Reporting};
use forebay_bench::run::JobResult;
use serde_json::{Value, json};

/// Default way to reach hosts. BatchMode, because several hosts would ask for a password at once.
const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10";
/// Default name of this program on the hosts.
const PROGRAM: &str = "forebay";

/// Runs the jobs of the command line on all hosts.
///
/// # Errors
/// What could not run, including a lost host; a finding where I/Os failed.
pub fn run(options: &BenchOptions, format: Format) -> Result<()> {
    let names = HostName::parse_all(&options.host, &options.target)?;
    let named = options.job.as_deref().filter(|path| !path.exists()).and_then(Named::parse);
    bench_abreast::refuse_idle(options, named, |what| {
        format!("{what} does not go with --host: it runs on this machine alone; leave one of them out")
    })?;
    measure::check_outputs(options)?;
    for note in measure::idle_options(options, named)? {
        output::complain(format!("note: {note}"));
    }
    let reporting = options.telemetry.reporting()?;
    let interval_ns = options.telemetry.session(options.destroy_data)?.interval_ns;
    let source = JobSource::read(options, false)?;
    // DiskSpd's -c creates a file on each host.
    let plan = source.plan(false, &[])?;
    refuse_jobs(&plan)?;
    plan.notes.iter().for_each(|note| output::complain(format!("note: {note}")));
    let command = Command {
        ssh: options.ssh.clone().unwrap_or_else(|| SSH.to_owned()),
        program: options.host_program.clone().unwrap_or_else(|| PROGRAM.to_owned()),
    };
    let work = |name: &HostName| Work {
        target: name.target.clone(),
        destroy_data: options.destroy_data,
        source: source.clone(),
    };
    let interval = |jobs: &[Job]| interval_ns.unwrap_or_else(|| interval_of_jobs(jobs));
    let Coordinated { results, hosts } = coordinate(&names, &command, &plan, work, interval)?;
    let shown = show(&plan, &results, &hosts, &reporting, format);
    let (on_each, together) = apart(results, hosts.len());
    let names: Vec<String> = hosts.iter().map(|host| host.name.to_string()).collect();
    let of_each = on_each.iter().zip(names.iter().cycle()).map(|(result, name)| (name.as_str(), result));
    let of_all = together.iter().map(|result| (bench_abreast::TOGETHER, result));
    options.telemetry.write_series(of_each.chain(of_all))?;
    // fio combines several files of a job in its JSON.
    write_files(if together.is_empty() { &on_each } else { &together }, options)?;
    shown?;
    let lost = hosts.iter().find_map(|host| Some((host, host.failure.as_ref()?)));
    if let Some((host, why)) = lost {
        return Err(anyhow!("host {}: {why}; what is known of it is in the result", host.name.host));
    }
    verdict(&on_each)
}

/// Refuses jobs that cannot be distributed over hosts.
fn refuse_jobs(plan: &Plan) -> Result<()> {
    for job in plan.groups.iter().flatten() {
        let what = match job {
            job if job.pattern.is_fed() => "a generator fits its I/Os to one target",
            job if job.evidence != Evidence::None => "evidence is for a pool of this process",
            job if job.steady.is_some() => "steadystate is judged on one host",
            _ => continue,
        };
        bail!("job {:?}: {what}: it does not run on --host", job.name);
    }
    Ok(())
}

/// Splits results into those of each host and the combined ones.
fn apart(results: Vec<JobResult>, hosts: usize) -> (Vec<JobResult>, Vec<JobResult>) {
    if hosts == 1 { (results, Vec::new()) } else { split(by_job(results, hosts)) }
}

/// The tool's own cost for job `number` on a host.
fn own_cost(host: &OfHost, number: usize) -> Option<f64> {
    host.done.own_costs_ns.get(number).copied().flatten()
}

fn show(plan: &Plan, results: &[JobResult], hosts: &[OfHost], reporting: &Reporting, format: Format) -> Result<()> {
    // Results of a job: those of all hosts, followed by the combined one.
    let of_job = hosts.len() + usize::from(hosts.len() > 1);
    let all: Vec<&str> = plan.groups.iter().flatten().map(|job| job.name.as_str()).collect();
    let not_started = all[(results.len() / of_job).min(all.len())..].to_vec();
    let on_each = || {
        results.chunks(of_job).enumerate().flat_map(|(job, of_job)| {
            of_job.iter().zip(hosts).map(move |(result, host)| (result, host, own_cost(host, job)))
        })
    };
    let together = || results.chunks(of_job).filter_map(|of_job| of_job.get(hosts.len()));
    let names: Vec<String> = hosts.iter().map(|host| host.name.to_string()).collect();
    let frame = Frame { target: names.join(", "), notes: &plan.notes, not_started, counters: None, wear: None };
    match format {
        Format::Json => {
            let several = hosts.len() > 1;
            output::json(frame.json(Contents {
                jobs: on_each().map(|(result, _, cost)| summary::job(result, cost, reporting)).collect(),
                together: several.then(|| together().map(|all| summary::job(all, None, reporting)).collect()),
                targets: Some(hosts.iter().map(target_json).collect()),
                hosts: Some(hosts.iter().map(host_json).collect()),
                ..Contents::default()
            }))
        }
        Format::Table => {
            let mut tables = Vec::new();
            for (job, of_job) in results.chunks(of_job).enumerate() {
                let each = of_job.iter().zip(hosts);
                tables.extend(
                    each.map(|(result, host)| {
                        job_table(&host.name.to_string(), result, own_cost(host, job), reporting)
                    }),
                );
                let all = of_job.get(hosts.len());
                tables.extend(
                    all.map(|all| job_table(&format!("all {} hosts together", hosts.len()), all, None, reporting)),
                );
            }
            frame.show_jobs(&tables)?;
            output::text(&format!("\n{}", hosts_table(hosts)))?;
            hosts
                .iter()
                .filter_map(|host| Some((host, counters_table(counters_rows(host.done.drive_counters.as_ref()?))?)))
                .try_for_each(|(host, table)| output::text(&format!("\n{}\n{table}", host.name)))
        }
    }
}

fn target_json(host: &OfHost) -> Value {
    json!({ "name": host.name.to_string(), "drive_counters": host.done.drive_counters, "models": null })
}

fn host_json(host: &OfHost) -> Value {
    json!({
        "name": host.name.host,
        "node": host.node,
        "target": host.name.target,
        "clock": host.clock.map(|clock| clock.json()),
        "failure": host.failure,
    })
}

/// The hosts with the offsets of their clocks.
fn hosts_table(hosts: &[OfHost]) -> String {
    let row = |host: &OfHost| {
        let clock = host.clock.map(|clock| {
            let ahead_ms = clock.before.unix.ahead_ns as f64 / 1e6;
            let drift =
                clock.drift_ppm().map_or_else(|| "-".to_owned(), |(ppm, bound)| format!("{ppm:+.1} +- {bound:.1}"));
            [format!("{ahead_ms:+.3}"), time(clock.before.unix.bound_ns), clock.before.trips.to_string(), drift]
        });
        let clock = clock.unwrap_or_else(|| std::array::from_fn(|_| "-".to_owned()));
        let lost = host.failure.as_ref().map_or_else(String::new, |why| format!("LOST: {why}"));
        [host.name.host.clone(), host.node.clone()].into_iter().chain(clock).chain([lost]).collect()
    };
    let rows: Vec<Vec<String>> = hosts.iter().map(row).collect();
    let head = ["host", "calls itself", "clock ahead (ms)", "to within", "round trips", "drift (ppm)", ""];
    output::table(&head, 2, &rows)
}

/// Rows of the counters of a host that have changed.
fn counters_rows(counters: &DriveCounters) -> Vec<Vec<String>> {
    let text = |value: Option<i128>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let moved = counters.values.iter().filter(|(_, counter)| counter.before != counter.after);
    moved
        .map(|(name, counter)| {
            let (before, after) = (counter.before.map(i128::from), counter.after.map(i128::from));
            vec![name.replace('_', " "), text(before), text(after), text(counter.change.map(i128::from))]
        })
        .collect()
}
