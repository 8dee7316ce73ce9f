//! Fills a job's keys from `[defaults]`.

use super::format::JobText;

/// Fills the named keys of a job from the defaults.
macro_rules! fill {
    ($job:ident, $defaults:ident: $($key:ident),* $(,)?) => {$(
        if $job.$key.is_none() {
            $job.$key.clone_from(&$defaults.$key);
        }
    )*};
}

/// A job whose missing keys are filled from `defaults`; keys that exclude each other are taken together or not at all. A job with a
/// generator takes no key for what the generator decides.
pub fn with_defaults(mut job: JobText, defaults: &JobText) -> JobText {
    if job.generator.is_some() {
        fill!(
            job, defaults:
            threads, depth, warmup, cooldown, start_delay, compressible, duplicates, seed, cpus, wait, calls, buffered,
            dsync, single_submission, evidence, steadystate, steadystate_duration, steadystate_ramp_time,
            steadystate_check_interval,
        );
        if job.runtime.is_none() && job.bytes.is_none() && job.ios.is_none() {
            fill!(job, defaults: runtime, bytes, ios);
        }
        return job;
    }
    if job.rw.is_none() && job.mix.is_none() {
        fill!(job, defaults: rw, mix);
    }
    if job.size.is_none() {
        fill!(job, defaults: size, size_write, size_trim);
    }
    if job.arrival.is_none() && job.rate.is_none() && job.trace.is_none() {
        fill!(job, defaults: arrival, rate, trace);
    } else if job.arrival.is_some_and(|kind| kind != super::format::ArrivalKind::Closed) {
        // `arrival = "poisson"` alone only changes how the shared rate is kept.
        fill!(job, defaults: rate, trace);
    } else if job.rate.is_some() {
        fill!(job, defaults: arrival);
    }
    if job.runtime.is_none() && job.bytes.is_none() && job.ios.is_none() && job.passes.is_none() {
        fill!(job, defaults: runtime, bytes, ios, passes);
    }
    fill!(
        job, defaults:
        flush_every, flush_kind, pattern, align, skew, region, threads, depth, think, think_compute, burst, warmup,
        cooldown, start_delay, compressible, duplicates, verify, seed, cpus, wait, calls, buffered, dsync,
        single_submission, steadystate, steadystate_duration, steadystate_ramp_time, steadystate_check_interval,
    );
    // These keys qualify `rw`; beside a `mix` they would cause errors although the job is correct.
    if job.mix.is_none() {
        fill!(job, defaults: read_percent, fua);
    }
    job
}
