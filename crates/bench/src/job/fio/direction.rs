//! `rw`, the mix of I/Os, and their offsets.

use super::reader::Reader;
use super::units::{self, Amount};
use crate::job::error::{JobError, quote};
use crate::job::model::{Extent, Mix, Pattern, Region, SizeMix, Sizes, Zone};
use crate::job::size::decimal;
use crate::job::validate::MAX_CHOICES;
use forebay_block::OpKind;
use forebay_block::mistakes::{Hint, nearest};

/// The value of `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Random offsets.
    pub random: bool,
    read: bool,
    write: bool,
    trim: bool,
    /// Number behind the colon: I/Os for each random offset, or bytes added to sequential offsets.
    suffix: i64,
}

impl Direction {
    /// Sizes of the kinds of I/O that are used.
    fn used(self, sizes: &Sizes) -> impl Iterator<Item = u32> {
        [(self.read, &sizes.read), (self.write, &sizes.write), (self.trim, &sizes.trim)]
            .into_iter()
            .filter(|&(done, _)| done)
            .flat_map(|(_, sizes)| sizes.choices.iter().map(|&(bytes, _)| bytes))
    }

    /// The smallest of these sizes.
    pub fn least_bytes(self, sizes: &Sizes) -> u32 {
        self.used(sizes).min().unwrap_or(0)
    }
}

const DIRECTIONS: &[(&str, [bool; 4])] = &[
    ("read", [false, true, false, false]),
    ("write", [false, false, true, false]),
    ("trim", [false, false, false, true]),
    ("randread", [true, true, false, false]),
    ("randwrite", [true, false, true, false]),
    ("randtrim", [true, false, false, true]),
    ("rw", [false, true, true, false]),
    ("readwrite", [false, true, true, false]),
    ("randrw", [true, true, true, false]),
    ("trimwrite", [false, false, true, true]),
    ("randtrimwrite", [true, false, true, true]),
];

/// Reads `rw`; fio's default is `read`.
pub fn direction(reader: &mut Reader<'_>) -> Result<Direction, JobError> {
    let text = reader.text("rw")?.unwrap_or("read");
    let (word, suffix) = text.split_once(':').map_or((text, None), |(word, suffix)| (word.trim(), Some(suffix)));
    let Some(&(_, [random, read, write, trim])) = DIRECTIONS.iter().find(|(name, _)| *name == word) else {
        let hint = Hint(nearest(word, DIRECTIONS.iter().map(|(name, _)| *name)));
        return Err(reader.wrong("rw", format!("{} is no kind of I/O{hint}", quote(word))));
    };
    let suffix = match suffix {
        None => 0,
        Some(text) => {
            let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
            let bytes = units::bytes(digits, reader.kb_base).map_err(|e| reader.wrong("rw", e))?;
            let bytes = i64::try_from(bytes).ok().filter(|bytes| *bytes <= 1 << 50);
            sign * bytes.ok_or_else(|| reader.wrong("rw", format!("{} is too far", quote(text))))?
        }
    };
    if random && suffix < 0 {
        return Err(reader.wrong("rw", "the number of I/Os per random offset is negative"));
    }
    Ok(Direction { random, read, write, trim, suffix })
}

/// Kinds of I/O with their weights, and flushes by count.
pub fn mix(reader: &mut Reader<'_>, direction: Direction) -> Result<Mix, JobError> {
    let (reads, writes) = (reader.percent("rwmixread")?, reader.percent("rwmixwrite")?);
    let read_percent = match (reads, writes) {
        // As in fio, the later key counts.
        (Some(reads), Some(writes)) if reads + writes != 100 => {
            let by_reads = reader.is_later("rwmixread", "rwmixwrite");
            let counts = if by_reads { "rwmixread" } else { "rwmixwrite" };
            reader.note(format!(
                "`rwmixread` and `rwmixwrite` do not add up to 100: {counts}, which stands further down, counts."
            ));
            if by_reads { reads } else { 100 - writes }
        }
        (Some(reads), _) => reads,
        (None, Some(writes)) => 100 - writes,
        (None, None) => 50,
    };
    let weights = match (direction.read, direction.write, direction.trim) {
        (true, true, _) => Mix::reads_percent(read_percent).weights,
        (_, true, true) => {
            reader.note(
                "`trimwrite`: trims and writes are mixed half and half; a write does not follow the trim of its block.",
            );
            vec![(OpKind::Write, 50), (OpKind::Trim, 50)]
        }
        (true, ..) => vec![(OpKind::Read, 100)],
        (_, true, _) => vec![(OpKind::Write, 100)],
        _ => vec![(OpKind::Trim, 100)],
    };
    let mut flush_every = None;
    for (key, kind) in [("fdatasync", OpKind::Flush), ("fsync", OpKind::Fsync)] {
        if let Some(count) = reader.count_u32(key)?.filter(|&count| count > 0) {
            if flush_every.is_some() {
                reader.note("`fsync` and `fdatasync` are both given: fsync counts.");
            }
            flush_every = Some((kind, count));
        }
    }
    if !weights.iter().any(|&(kind, _)| kind == OpKind::Write) {
        flush_every = None;
    }
    Ok(Mix { weights, flush_every })
}

/// The pattern. fio covers every block once (`Shuffled`) unless an option forbids its random map.
pub fn pattern(
    reader: &mut Reader<'_>,
    direction: Direction,
    sizes: &Sizes,
    mix: &Mix,
    region: Region,
) -> Result<Pattern, JobError> {
    // Only sizes of kinds that are used count; fio's unit of offsets is the smallest.
    let least = direction.least_bytes(sizes);
    let uniform = direction.used(sizes).all(|bytes| bytes == least);
    if !direction.random {
        if direction.suffix == 0 {
            return Ok(by_kind(mix, |_| Pattern::Sequential { per_thread: false }));
        }
        if !uniform {
            reader.note("`rw` with a distance: it is counted from the smallest I/O.");
        }
        if direction.suffix < 0 {
            reader.note("`rw` with a negative distance begins at the end; fio's first I/O is at the region's begin.");
        }
        return Ok(by_kind(mix, |kind| {
            let choices = sizes_of(sizes, kind).choices.iter();
            let least = choices.map(|&(bytes, _)| bytes).min().unwrap_or(0);
            Pattern::Strided { stride_bytes: i64::from(least) + direction.suffix }
        }));
    }
    if direction.suffix > 1 {
        let identical = reader.text("rw_sequencer")? == Some("identical");
        if !identical {
            let percent = (100.0 / direction.suffix as f64).round().max(1.0) as u32;
            reader.note(format!(
                "`rw=...:{}`: {percent} percent of the I/Os are random, the others follow the one before; \
                 the runs differ in length.",
                direction.suffix
            ));
            return Ok(by_kind(mix, |_| Pattern::MixedSequential { random_percent: percent }));
        }
        reader.note("`rw_sequencer=identical`: every I/O has an offset of its own here.");
    }
    let percents = reader.percent_by_direction("percentage_random")?.unwrap_or_default();
    let percent_of = |kind: OpKind| percents.get(index(kind)).copied().flatten().filter(|&percent| percent < 100);
    let mixed = |kind: OpKind| percent_of(kind).map(|percent| Pattern::MixedSequential { random_percent: percent });
    let all_random = mix.weights.iter().all(|&(kind, _)| percent_of(kind).is_none());
    if mix.weights.iter().all(|&(kind, _)| percent_of(kind).is_some()) {
        return Ok(by_kind(mix, |kind| mixed(kind).unwrap_or(Pattern::Shuffled)));
    }
    let random = random_pattern(reader, direction, mix, region, least, uniform)?;
    if all_random {
        return Ok(random);
    }
    Ok(by_kind(mix, |kind| mixed(kind).unwrap_or_else(|| random.of(kind).clone())))
}

/// One pattern if there is one kind of I/O; otherwise each kind has its own sequence, as fio's directions do.
fn by_kind(mix: &Mix, pattern: impl Fn(OpKind) -> Pattern) -> Pattern {
    match mix.weights.as_slice() {
        &[(kind, _)] => pattern(kind),
        _ => Pattern::ByKind(Box::new([OpKind::Read, OpKind::Write, OpKind::Trim].map(pattern))),
    }
}

/// Position of a kind in fio's lists by direction.
pub fn index(kind: OpKind) -> usize {
    match kind {
        OpKind::Read => 0,
        OpKind::Trim => 2,
        _ => 1,
    }
}

fn sizes_of(sizes: &Sizes, kind: OpKind) -> &SizeMix {
    match kind {
        OpKind::Read => &sizes.read,
        OpKind::Trim => &sizes.trim,
        _ => &sizes.write,
    }
}

/// A pattern with only random offsets. I/Os have at least `least` bytes, and all the same size if `uniform`.
fn random_pattern(
    reader: &mut Reader<'_>,
    direction: Direction,
    mix: &Mix,
    region: Region,
    least: u32,
    uniform: bool,
) -> Result<Pattern, JobError> {
    let align = reader.by_direction("ba")?.and_then(|[read, write, trim]| {
        let of = |done: bool, align: Option<u64>| align.filter(|_| done);
        of(direction.read, read).or(of(direction.write, write)).or(of(direction.trim, trim))
    });
    if let Some(lists) = zone_lists(reader, region)? {
        let zones = |list: &Vec<Zone>| Pattern::Zones { zones: list.clone(), align_bytes: align.unwrap_or(0) };
        return Ok(match lists.as_slice() {
            [one] => zones(one),
            // The last list also holds for the directions after it.
            several => {
                by_kind(mix, |kind| several.get(index(kind)).or(several.last()).map_or(Pattern::Shuffled, zones))
            }
        });
    }
    match distribution(reader)? {
        // These distributions use blocks of the job's smallest size.
        Some(_) if align.is_some_and(|align| align != u64::from(least)) => {
            let advice = "align by the smallest bs, or take zoned or a uniform distribution";
            return Err(reader.unsupported("ba", "`blockalign` with this `random_distribution`", advice));
        }
        Some(pattern) => return Ok(pattern),
        None => {}
    }
    if reader.is_on("norandommap")? || align.is_some() || !uniform {
        if !uniform && !reader.is_on("norandommap")? {
            reader.note("With several sizes offsets are drawn anew each time: blocks may repeat, as with norandommap.");
        }
        let align = align.unwrap_or(if uniform { 0 } else { u64::from(least) });
        return Ok(Pattern::Random { align_bytes: align, skew_bytes: 0 });
    }
    Ok(Pattern::Shuffled)
}

/// The word of a `random_distribution`, and the rest. In one place, fio's manual writes `zoned_abs=60/20G`.
fn word_and_rest(text: &str) -> (&str, &str) {
    text.split_once([':', '=']).map_or((text, ""), |(word, rest)| (word.trim(), rest))
}

/// Standard deviation of fio's `normal:DEVIATION`, in percent of the region (`gauss_next`, lib/gauss.c): the mean of twelve numbers uniform
/// over the region, and one uniform over DEVIATION percent of it, at most half of it.
fn normal_deviation_percent(deviation: f64) -> f64 {
    (100.0_f64.powi(2) / 144.0 + deviation.min(50.0).powi(2) / 12.0).sqrt()
}

/// A `random_distribution` without zones; `None` for a uniform one.
fn distribution(reader: &mut Reader<'_>) -> Result<Option<Pattern>, JobError> {
    let key = "random_distribution";
    let Some(text) = reader.text(key)? else { return Ok(None) };
    let (word, rest) = word_and_rest(text);
    let mut parts = rest.split([':', ',']).map(str::trim).filter(|part| !part.is_empty());
    let value = match parts.next() {
        None => None,
        Some(part) => Some(decimal(part).ok_or_else(|| reader.wrong(key, format!("{} is no number", quote(part))))?),
    };
    if parts.next().is_some() {
        reader.note("`random_distribution`: a centre, or values by direction, are not used.");
    }
    // Without a number, fio's own defaults.
    match word {
        "random" => Ok(None),
        "zipf" => Ok(Some(Pattern::Zipf { theta: value.unwrap_or(1.1) })),
        "pareto" => Ok(Some(Pattern::Pareto { h: value.unwrap_or(0.2) })),
        "normal" => {
            let given = value.unwrap_or(0.0);
            if !(0.0..100.0).contains(&given) {
                return Err(reader.wrong(key, format!("normal:{given}; from 0 to below 100, as in fio")));
            }
            let deviation_percent = normal_deviation_percent(given);
            reader.note(format!(
                "`random_distribution=normal`: as fio makes it, scattered over the region, of a deviation of \
                 {deviation_percent:.3} %."
            ));
            Ok(Some(Pattern::Normal { deviation_percent, scattered: true }))
        }
        "sequence" => Err(reader.unsupported(key, "random_distribution=sequence", "write one job for each block")),
        other => {
            let known = ["random", "zipf", "pareto", "normal", "zoned", "zoned_abs"];
            Err(JobError::unknown(&reader.place(key), "distribution", other, known))
        }
    }
}

/// `zoned:50/5:30/15:20/`: accesses and sizes; sizes that are left out share the rest. One list for each direction that has one. `None` for
/// other distributions.
fn zone_lists(reader: &Reader<'_>, region: Region) -> Result<Option<Vec<Vec<Zone>>>, JobError> {
    let key = "random_distribution";
    let Some((word, rest)) = reader.text(key)?.map(word_and_rest).filter(|(word, _)| word.starts_with("zoned")) else {
        return Ok(None);
    };
    let form = || reader.wrong(key, format!("{} are no zones: write 60/10:30/20:10/70", quote(rest)));
    let total = match (word, region.size) {
        ("zoned", _) => None,
        ("zoned_abs", Extent::Bytes(bytes)) if bytes > 0 => Some(bytes),
        ("zoned_abs", _) => {
            let advice = "say the size in bytes with size=, or give shares with zoned:";
            return Err(reader.unsupported(key, "zoned_abs on a region of unknown size", advice));
        }
        _ => return Err(form()),
    };
    let lists: Vec<&str> = rest.split(',').map(str::trim).filter(|list| !list.is_empty()).take(4).collect();
    if !(1..=3).contains(&lists.len()) {
        return Err(form());
    }
    lists.into_iter().map(|list| zones(reader, list, total)).collect::<Result<_, _>>().map(Some)
}

/// The zones of one direction. With `total`, sizes are in bytes of that total.
fn zones(reader: &Reader<'_>, list: &str, total: Option<u64>) -> Result<Vec<Zone>, JobError> {
    let key = "random_distribution";
    let form = || reader.wrong(key, format!("{} are no zones: write 60/10:30/20:10/70", quote(list)));
    let mut zones = Vec::new();
    for part in list.split(':') {
        let (access, size) = part.split_once('/').ok_or_else(form)?;
        let access_percent = decimal(access.trim()).ok_or_else(form)?;
        let size_percent = match (size.trim(), total) {
            ("", _) => None,
            (size, None) => Some(decimal(size.trim_end_matches('%')).ok_or_else(form)?),
            (size, Some(total)) => {
                let bytes = units::bytes(size, reader.kb_base).map_err(|e| reader.wrong(key, e))?;
                Some(bytes as f64 / total as f64 * 100.0)
            }
        };
        if zones.len() == MAX_CHOICES {
            return Err(reader.wrong(key, format!("more than {MAX_CHOICES} zones")));
        }
        zones.push((access_percent, size_percent));
    }
    let accesses: f64 = zones.iter().map(|&(access, _)| access).sum();
    // Shares with decimals do not sum to exactly 100.
    if accesses < 100.0 - 1e-6 {
        return Err(
            reader.wrong(key, format!("the zones have {accesses} % of the accesses: all are to be given, as to fio"))
        );
    }
    let left = 100.0 - zones.iter().filter_map(|&(_, size)| size).sum::<f64>();
    let open = zones.iter().filter(|(_, size)| size.is_none()).count() as f64;
    let zone = |(access_percent, size): (f64, Option<f64>)| Zone {
        access_percent,
        size_percent: size.unwrap_or_else(|| left / open),
    };
    Ok(zones.into_iter().map(zone).collect())
}

/// The part of the target that one job uses, from `offset` and `size` or `filesize`.
pub fn region(reader: &mut Reader<'_>) -> Result<Region, JobError> {
    let extent = |amount: Amount| match amount {
        Amount::Bytes(bytes) => Extent::Bytes(bytes),
        Amount::Percent(percent) => Extent::Percent(percent),
    };
    let offset = reader.amount("offset")?.map_or(Extent::Bytes(0), extent);
    let size = match reader.amount("size")? {
        Some(amount) => extent(amount),
        None => Extent::Bytes(files(reader)?.unwrap_or(0)),
    };
    Ok(cut(Region { offset, size }))
}

/// Cuts a share at the end of the target as fio does; a job with a region beyond the end would be refused. If the offset is in bytes, this
/// is only known to be needed for a size of 100 %.
pub fn cut(region: Region) -> Region {
    let reaches = match (region.offset, region.size) {
        (_, Extent::Percent(size)) if size >= 100.0 => true,
        (Extent::Percent(offset), Extent::Percent(size)) => offset + size > 100.0,
        _ => false,
    };
    if reaches { Region { size: Extent::Bytes(0), ..region } } else { region }
}

/// Total bytes of `nrfiles` files of `filesize`; here they lie on the target one after the other.
fn files(reader: &mut Reader<'_>) -> Result<Option<u64>, JobError> {
    let Some(text) = reader.text("filesize")? else { return Ok(None) };
    let (least, range) = text.split_once(['-', ':', ',']).map_or((text, false), |(least, _)| (least, true));
    let bytes = units::bytes(least, reader.kb_base).map_err(|e| reader.wrong("filesize", e))?;
    if range {
        reader.note("`filesize` is a range: its lower end is used.");
    }
    let files = reader.count("nrfiles")?.unwrap_or(1);
    bytes.checked_mul(files).map(Some).ok_or_else(|| reader.wrong("filesize", "more than 2^64 bytes of files"))
}
