//! Sizes: `bs`, `bsrange`, `bssplit`.

use super::reader::Reader;
use super::units::{self, KbBase};
use crate::job::error::{JobError, quote};
use crate::job::model::{SizeMix, Sizes};
use crate::job::validate::MAX_CHOICES;

/// fio's default size.
const DEFAULT_BYTES: u32 = 4096;

/// Sizes by direction. `bssplit` takes precedence over `bsrange`, and `bsrange` over `bs`, as in fio.
pub fn sizes(reader: &mut Reader<'_>) -> Result<Sizes, JobError> {
    let base = reader.kb_base;
    let mut mixes = [None, None, None];
    if let Some(fixed) = reader.by_direction("bs")? {
        for (mix, bytes) in mixes.iter_mut().zip(fixed) {
            *mix = bytes.map(|bytes| fit(bytes).map(SizeMix::fixed)).transpose().map_err(|e| reader.wrong("bs", e))?;
        }
    }
    for (key, read) in [("bsrange", range as fn(&str, KbBase) -> Result<SizeMix, String>), ("bssplit", split)] {
        reader.note_turned(key)?;
        let Some(text) = reader.text(key)? else { continue };
        let given = units::by_direction(text, |part| read(part, base)).map_err(|e| reader.wrong(key, e))?;
        for (mix, given) in mixes.iter_mut().zip(given) {
            *mix = given.or(mix.take());
        }
    }
    if reader.is_on("bs_unaligned")? {
        reader.note("`bs_unaligned`: the sizes of a range are multiples of its smallest here.");
    }
    let [read, write, trim] = mixes.map(|mix| mix.unwrap_or_else(|| SizeMix::fixed(DEFAULT_BYTES)));
    Ok(Sizes { read, write, trim })
}

fn fit(bytes: u64) -> Result<u32, String> {
    u32::try_from(bytes).map_err(|_| format!("an I/O of {bytes} bytes is too large"))
}

/// `4k-64k`: all multiples of the smaller size, equally often.
fn range(text: &str, base: KbBase) -> Result<SizeMix, String> {
    let (least, most) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (a, b) = (fit(units::bytes(least, base)?)?, fit(units::bytes(most, base)?)?);
    let (least, most) = (a.min(b), a.max(b));
    let count = most.checked_div(least).ok_or_else(|| format!("{}: 0 bytes", quote(text)))?;
    if count as usize > MAX_CHOICES {
        return Err(format!("{} has {count} sizes; at most {MAX_CHOICES}: choose some with bssplit", quote(text)));
    }
    Ok(SizeMix { choices: (1..=count).map(|n| (least * n, 1)).collect() })
}

/// `4k/10:64k/50:32k/`: size and percent; sizes without a percentage share the rest.
fn split(text: &str, base: KbBase) -> Result<SizeMix, String> {
    let mut choices = Vec::new();
    let (mut said, mut unsaid) = (0u32, 0u32);
    for part in text.split(':').map(str::trim).filter(|part| !part.is_empty()) {
        if choices.len() == MAX_CHOICES {
            return Err(format!("more than {MAX_CHOICES} sizes"));
        }
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = match percent.trim().trim_end_matches('%') {
            "" => None,
            number => {
                let number = number.parse::<u32>().ok().filter(|percent| *percent <= 100);
                Some(number.ok_or_else(|| format!("{} is no percentage", quote(percent)))?)
            }
        };
        match percent {
            Some(percent) => said += percent,
            None => unsaid += 1,
        }
        choices.push((fit(units::bytes(size, base)?)?, percent));
    }
    if said > 100 {
        return Err(format!("the percentages add up to {said}"));
    }
    // Given weights are multiplied, so that the rest can be divided evenly among the others.
    let scale = unsaid.max(1);
    let weighted = choices.into_iter().map(|(size, percent)| (size, percent.map_or(100 - said, |p| p * scale)));
    Ok(SizeMix { choices: weighted.filter(|&(_, weight)| weight > 0).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_fill_up_and_ranges_count() {
        let base = KbBase::Turned;
        assert_eq!(split("4k/10:64k/50:32k/40", base).unwrap().choices, [(4096, 10), (65_536, 50), (32_768, 40)]);
        assert_eq!(split("4k/50:1k/:32k/", base).unwrap().choices, [(4096, 100), (1024, 50), (32_768, 50)]);
        assert_eq!(split("64k", base).unwrap().choices, [(65_536, 100)]);
        assert_eq!(range("1k-4k", base).unwrap().choices, [(1024, 1), (2048, 1), (3072, 1), (4096, 1)]);
        assert_eq!(range("4k:1k", base).unwrap().choices.len(), 4);
        assert!(split("4k/60:8k/60", base).is_err() && split("4k/x", base).is_err());
        assert!(range("512-1m", base).is_err() && range("0-4k", base).is_err());
    }
}
