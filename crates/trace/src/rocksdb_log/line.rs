//! Parses a line of the LOG.

use memchr::memmem::find;
use serde_json::Value;

/// Most levels that are accepted; RocksDB has 7 unless configured otherwise.
const LEVELS_MAX: u64 = 64;

/// An event in the LOG that is relevant here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The database is opened.
    Opens,
    /// A job begins that writes tables of this level.
    Begins { job: u64, level: u8 },
    /// A table is about to be written.
    Writes { job: Option<u64>, number: u64, level: u8 },
    /// A job has written a table.
    Wrote { job: u64, number: u64, bytes: u64 },
    /// A job has ended; its tables belong to this level.
    Ends { job: u64, level: Option<u8> },
    /// Levels of the tables that a compaction reads.
    Are { inputs: Vec<(u8, u64)> },
    /// A table is moved to a level without being rewritten.
    Moves { number: u64, level: u8 },
    /// A table written elsewhere is ingested.
    Ingests { number: u64, level: u8 },
    /// The file of a table is deleted.
    Deletes { number: u64 },
}

/// What is wrong with a line.
type Bad = &'static str;

/// The event of a line, with its time in microseconds of a simplified calendar; `None` if it has no event.
///
/// Lines of a log buffer come late, with the time at which they were noted.
pub(super) fn parse(line: &[u8]) -> Result<Option<(u64, Entry)>, Bad> {
    // Other lines are continuations of statistics or options.
    let Some((mut at, mut rest)) = time(line) else { return Ok(None) };
    if let Some(original) = find(rest, b"(Original Log Time ").and_then(|begin| rest.get(begin + 19..))
        && let Some((noted, behind)) = time(original)
    {
        (at, rest) = (noted, behind);
    }
    let entry = match find(rest, b"EVENT_LOG_v1 ") {
        Some(begin) => event(rest.get(begin + 13..).unwrap_or_default())?,
        None => text(rest)?,
    };
    Ok(entry.map(|entry| (at, entry)))
}

/// Parses `2026/11/22-09:43:34.162409`; also returns the rest.
fn time(line: &[u8]) -> Option<(u64, &[u8])> {
    const SHAPE: &[u8; 26] = b"0000/00/00-00:00:00.000000";
    let (stamp, rest) = line.split_at_checked(SHAPE.len())?;
    let mut fields = [0_u64; 7];
    let mut field = 0;
    for (&byte, &shape) in stamp.iter().zip(SHAPE) {
        if shape == b'0' {
            let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
            // Six digits at most.
            fields[field] = fields[field] * 10 + u64::from(digit);
        } else if byte == shape {
            field += 1;
        } else {
            return None;
        }
    }
    let [year, month, day, hour, minute, second, microsecond] = fields;
    // The fields have at most a few digits, so nothing overflows; only the order matters.
    let hours = ((year * 13 + month) * 32 + day) * 24 + hour;
    Some((((hours * 60 + minute) * 60 + second) * 1_000_000 + microsecond, rest))
}

fn text(rest: &[u8]) -> Result<Option<Entry>, Bad> {
    if let Some(begin) = find(rest, b"[JOB ") {
        let (job, rest) = number(&rest[begin + 5..])?;
        return match rest.strip_prefix(b"] ") {
            Some(rest) => of_job(job, rest),
            None => Ok(None),
        };
    }
    if let Some(rest) = behind(rest, b"[WriteLevel0TableForRecovery] Level-0 table #") {
        let (number, rest) = number(rest)?;
        return Ok((rest == b": started").then_some(Entry::Writes { job: None, number, level: 0 }));
    }
    if let Some(rest) = behind(rest, b"] Moving #") {
        let (number, rest) = number(rest)?;
        let Some(rest) = rest.strip_prefix(b" to level-") else { return Ok(None) };
        return Ok(Some(Entry::Moves { number, level: level(rest)?.0 }));
    }
    if let Some(rest) = behind(rest, b"[AddFile] External SST file ")
        && let Some(rest) = behind(rest, b" was ingested in L")
    {
        let (level, rest) = level(rest)?;
        let Some(path) = rest.strip_prefix(b" with path ") else { return Ok(None) };
        let path = find(path, b" (global_seqno=").map_or(path, |end| &path[..end]);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        return Ok(Some(Entry::Ingests { number: number(name)?.0, level }));
    }
    Ok(find(rest, b"Recovering from manifest file:").map(|_| Entry::Opens))
}

/// Parses what follows `[JOB n] `.
fn of_job(job: u64, rest: &[u8]) -> Result<Option<Entry>, Bad> {
    if let Some(rest) = rest.strip_prefix(b"Compacting ")
        && let Some(rest) = behind(rest, b" files to L")
    {
        return Ok(Some(Entry::Begins { job, level: level(rest)?.0 }));
    }
    if let Some(rest) = rest.strip_prefix(b"Level-0 flush table #") {
        let (number, rest) = number(rest)?;
        return Ok((rest == b": started").then_some(Entry::Writes { job: Some(job), number, level: 0 }));
    }
    if let Some(rest) = rest.strip_prefix(b"Generated table #") {
        let (table, rest) = number(rest)?;
        let Some(rest) = behind(rest, b" keys, ") else { return Ok(None) };
        return Ok(Some(Entry::Wrote { job, number: table, bytes: number(rest)?.0 }));
    }
    Ok(None)
}

fn behind<'a>(line: &'a [u8], marker: &[u8]) -> Option<&'a [u8]> {
    find(line, marker).and_then(|begin| line.get(begin + marker.len()..))
}

/// Parses a number; also returns the rest.
fn number(text: &[u8]) -> Result<(u64, &[u8]), Bad> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).unwrap_or_default();
    let parsed = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    parsed.map(|number| (number, rest)).ok_or("no number of 64 bits where one should be")
}

fn level(text: &[u8]) -> Result<(u8, &[u8]), Bad> {
    let (level, rest) = number(text)?;
    Ok((believed(level)?, rest))
}

fn believed(level: u64) -> Result<u8, Bad> {
    const BAD: Bad = "a level of 64 or more";
    if level >= LEVELS_MAX { Err(BAD) } else { u8::try_from(level).map_err(|_| BAD) }
}

fn event(json: &[u8]) -> Result<Option<Entry>, Bad> {
    let Ok(Value::Object(members)) = serde_json::from_slice(json) else {
        return Err("an event that is no JSON object; a cut one, perhaps");
    };
    let of = |key: &str| members.get(key).and_then(Value::as_u64);
    let needed = |key: &str| of(key).ok_or("an event without a number that belongs to it");
    let Some(Value::String(event)) = members.get("event") else { return Ok(None) };
    Ok(match event.as_str() {
        "recovery_started" | "flush_started" => Some(Entry::Begins { job: needed("job")?, level: 0 }),
        "recovery_finished" | "flush_finished" => Some(Entry::Ends { job: needed("job")?, level: Some(0) }),
        "compaction_started" => {
            let mut inputs = Vec::new();
            for (key, files) in &members {
                let Some(at) = key.strip_prefix("files_L") else { continue };
                let (at, _) = level(at.as_bytes())?;
                let files = files.as_array().map(Vec::as_slice).unwrap_or_default();
                inputs.extend(files.iter().filter_map(Value::as_u64).map(|number| (at, number)));
            }
            Some(Entry::Are { inputs })
        }
        "compaction_finished" => {
            let level = of("output_level").map(believed).transpose()?;
            Some(Entry::Ends { job: needed("job")?, level })
        }
        "table_file_creation" => {
            let bytes = of("file_size").unwrap_or(0);
            Some(Entry::Wrote { job: needed("job")?, number: needed("file_number")?, bytes })
        }
        "table_file_deletion" => Some(Entry::Deletes { number: needed("file_number")? }),
        _ => None,
    })
}
