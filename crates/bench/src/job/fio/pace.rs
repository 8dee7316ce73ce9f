//! Rates, think time, and the end of a job.

use super::direction::index;
use super::reader::Reader;
use super::units::Amount;
use crate::job::error::JobError;
use crate::job::model::{Arrival, Burst, End, Extent, Mix, Pattern, Region, Sizes, Think};
use crate::job::validate::MAX_WEIGHT;
use forebay_block::OpKind;

const SECOND_NS: u64 = 1_000_000_000;

/// `rate` and `rate_iops`, which fio counts per job and direction, as one rate of all threads. If reads and writes are mixed, their limits
/// determine the mix, as in fio while the target keeps up.
pub fn arrival(reader: &mut Reader<'_>, mix: &mut Mix, sizes: &Sizes, threads: u32) -> Result<Arrival, JobError> {
    let bytes = total(reader, "rate", mix, sizes, threads)?;
    let iops = total(reader, "rate_iops", mix, sizes, threads)?;
    let poisson = match reader.text("rate_process")? {
        None | Some("linear") => false,
        Some("poisson") => true,
        Some(other) => return Err(reader.wrong("rate_process", format!("{other:?}; linear or poisson"))),
    };
    let offload = match reader.text("io_submit_mode")? {
        None | Some("inline") => false,
        Some("offload") => true,
        Some(other) => return Err(reader.wrong("io_submit_mode", format!("{other:?}; inline or offload"))),
    };
    if bytes.is_none() && iops.is_none() {
        return Ok(Arrival::Closed);
    }
    if !poisson && !offload {
        return Ok(Arrival::Throttled { iops, bytes_per_second: bytes });
    }
    // With both limits, the lower one counts.
    let mean = mix.mean_bytes(sizes);
    let from_bytes = bytes.filter(|_| mean > 0.0).map(|bytes| bytes / mean);
    let iops = match (iops, from_bytes) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b).ok_or_else(|| reader.wrong("rate", "these I/Os move no bytes: use rate_iops"))?,
    };
    if poisson {
        reader.note(
            "`rate_process=poisson`: a schedule that does not wait for the target; latency counts from the intended \
             start (fio's only with io_submit_mode=offload).",
        );
        Ok(Arrival::Poisson { iops })
    } else {
        reader.note("`io_submit_mode=offload` with a rate: a constant schedule that does not wait for the target.");
        Ok(Arrival::Constant { iops })
    }
}

/// The sum over directions and threads; the limits of reads and writes become their weights in the mix.
fn total(
    reader: &mut Reader<'_>,
    key: &str,
    mix: &mut Mix,
    sizes: &Sizes,
    threads: u32,
) -> Result<Option<f64>, JobError> {
    let Some(rates) = reader.by_direction(key)? else { return Ok(None) };
    let limit = |kind: OpKind| rates.get(index(kind)).copied().flatten().unwrap_or(0);
    let limits: Vec<u64> = mix.weights.iter().map(|&(kind, _)| limit(kind)).collect();
    if limits.iter().all(|&limit| limit == 0) {
        return Ok(None);
    }
    if limits.contains(&0) {
        let advice = "write a job for each direction, of which one has the rate";
        return Err(reader.unsupported(key, format!("`{key}` of one direction of several"), advice));
    }
    if let &[(OpKind::Read, _), (OpKind::Write, _)] = mix.weights.as_slice() {
        mix.weights = weights(mix, sizes, &limits, key == "rate");
        reader.note(format!(
            "`{key}`: the limits of reads and writes make the mix, as in fio, which goes back to its own mix where the \
             target is slower."
        ));
    } else if limits.len() > 1 {
        reader.note(format!("`{key}`: the limits of the directions are added up; the mix decides their shares."));
    }
    let sum: f64 = limits.iter().map(|&limit| limit as f64).sum();
    Ok(Some(sum * f64::from(threads)))
}

/// The kinds weighted by their limits in I/Os a second.
fn weights(mix: &Mix, sizes: &Sizes, limits: &[u64], by_bytes: bool) -> Vec<(OpKind, u32)> {
    let iops = |kind: OpKind, limit: u64| {
        let each = if by_bytes { Mix::only(kind).mean_bytes(sizes) } else { 1.0 };
        limit as f64 / each.max(1.0)
    };
    let rates: Vec<f64> = mix.weights.iter().zip(limits).map(|(&(kind, _), &limit)| iops(kind, limit)).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    // Whole numbers are kept, so that the mix reads as in the job file.
    let exact = most <= f64::from(MAX_WEIGHT) && rates.iter().all(|rate| rate.fract() == 0.0);
    let scale = if exact { 1.0 } else { f64::from(MAX_WEIGHT) / most };
    let weight = |rate: f64| (rate * scale).round().max(1.0) as u32;
    mix.weights.iter().zip(rates).map(|(&(kind, _), rate)| (kind, weight(rate))).collect()
}

/// `thinktime`: a pause after each I/O, or after `thinktime_blocks` of them.
pub fn think(reader: &mut Reader<'_>, arrival: &Arrival) -> Result<(Option<Think>, Option<Burst>), JobError> {
    let Some(time_ns) = reader.time_ns("thinktime", 1000)?.filter(|&ns| ns > 0) else {
        return Ok((None, None));
    };
    if arrival.is_open() {
        reader.note("`thinktime` has no effect beside a schedule that does not wait for the target.");
        return Ok((None, None));
    }
    let spin_ns = reader.time_ns("thinktime_spin", 1000)?.unwrap_or(0);
    if reader.has("thinktime_iotime") {
        reader.note("`thinktime_iotime` is not used: thinktime_blocks counts I/Os.");
    }
    let blocks = reader.count("thinktime_blocks")?.unwrap_or(1);
    if blocks > 1 {
        if spin_ns > 0 {
            reader.note("`thinktime_spin` is not used together with thinktime_blocks: the thread sleeps.");
        }
        return Ok((None, Some(Burst { ios: blocks, pause_ns: time_ns })));
    }
    if spin_ns > 0 && spin_ns < time_ns {
        reader.note("`thinktime_spin`: the thread computes for all of the thinktime.");
    }
    Ok((Some(Think { time_ns, compute: spin_ns > 0 }), None))
}

/// When the job ends: after `runtime`, after the size of the region per thread and loop, after `io_size`, or after `number_ios`. If strides
/// leave holes, fio begins again at the end of the region until the size was transferred; but it ends there if the region is not the whole
/// file and no `io_size` is given. `least` is the smallest I/O.
pub fn end(
    reader: &mut Reader<'_>,
    pattern: &Pattern,
    region: Region,
    least: u32,
    threads: u32,
) -> Result<End, JobError> {
    let after_ns = reader.time_ns("runtime", SECOND_NS)?.filter(|&ns| ns > 0);
    if reader.is_on("time_based")? {
        if after_ns.is_some() {
            return Ok(End { after_ns, ..End::default() });
        }
        reader.note("`time_based` needs a runtime: the job ends after its size.");
    }
    let loops = reader.count("loops")?.unwrap_or(1).max(1);
    let rounds = loops.saturating_mul(u64::from(threads));
    let after_ios = reader.count("number_ios")?.filter(|&ios| ios > 0).map(|ios| ios.saturating_mul(rounds));
    let mut end = End { after_ns, after_ios, ..End::default() };
    match reader.amount("io_size")? {
        Some(Amount::Bytes(bytes)) if bytes > 0 => end.after_bytes = Some(bytes.saturating_mul(rounds)),
        Some(Amount::Percent(percent)) if percent > 0.0 => end.after_passes = Some(percent / 100.0 * rounds as f64),
        _ => {
            end.after_passes = Some(rounds as f64);
            let has_holes = pattern.parts().iter().any(|part| matches!(part, Pattern::Strided { .. }));
            end.after_walks = has_holes.then_some(rounds);
            // A share is rounded down to whole I/Os, a map of random offsets leaves out what is left over, and so does a
            // walk that ends with the file.
            let parts = pattern.parts();
            let is_map = parts.iter().all(|part| matches!(part, Pattern::Shuffled));
            let is_walk = parts.iter().all(|part| matches!(part, Pattern::Sequential { .. }));
            let is_share = matches!(region.size, Extent::Percent(_));
            end.pass_unit_bytes = if is_map || is_walk || is_share { least } else { 0 };
            if let (true, Extent::Bytes(bytes)) = (is_walk, region.size)
                && !bytes.is_multiple_of(u64::from(least.max(1)))
            {
                reader.note("`size` is no multiple of `bs`: the I/O that fio lets cross its end is left out.");
            }
        }
    }
    Ok(end)
}
