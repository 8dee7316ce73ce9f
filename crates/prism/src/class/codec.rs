//! The stored form of a class table, for the checkpoint. All integers little-endian:
//!
//! ```text
//! "FBCT" | version u16 = 2 | classes u8 | class... | CRC32C of all before u32
//! class: name length u8, name | place u8 | flags u8 (1: read cache) | compress u8 (0 off, 1..=19 zstd, 255 LZ4) | share f64 bits u64 | priority u16
//!        | rules u8 | rule...; rule: length u16, text
//! ```
//!
//! Version 1 has no `compress`; its classes are read as `off`.

use super::{ClassError, ClassSpec, ClassTable, NAME_LIMIT_BYTES, Place, RULES_LIMIT};
use crate::bytes::{Reader, Writer};
use crate::compress::Compress;
use crate::rules::RULE_LIMIT_BYTES;
use forebay_block::{ClassId, checksum::crc32c};

const MAGIC: &[u8; 4] = b"FBCT";
const VERSION: u16 = 2;
const VERSION_WITHOUT_COMPRESS: u16 = 1;

impl ClassTable {
    /// The table as bytes; at most about 280 KiB.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(MAGIC);
        out.u16(VERSION);
        out.u8(self.classes.len() as u8);
        for class in &self.classes {
            out.u8(class.name.len() as u8);
            out.bytes(class.name.as_bytes());
            out.u8(match class.place {
                Place::Fast => 0,
                Place::Stage => 1,
                Place::Capacity => 2,
                Place::Both => 3,
            });
            out.u8(u8::from(class.read_cache));
            out.u8(class.compress.to_byte());
            out.u64(class.share.to_bits());
            out.u16(class.priority);
            out.u8(class.rules.len() as u8);
            for rule in &class.rules {
                out.u16(rule.len() as u16);
                out.bytes(rule.as_bytes());
            }
        }
        out.sealed()
    }

    /// Parses the output of [`ClassTable::encode`].
    ///
    /// # Errors
    /// [`ClassError::Damaged`], or another error of the table's contents. Never panics, whatever the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ClassError> {
        let damaged = |reason, offset| ClassError::Damaged { reason, offset };
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(damaged("too short", bytes.len()));
        };
        if crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(damaged("checksum does not match", body.len()));
        }
        let mut input = Reader::new(body);
        let classes = read(&mut input).ok_or_else(|| damaged("malformed", input.offset()))?;
        if !input.is_empty() {
            return Err(damaged("trailing bytes", input.offset()));
        }
        for (i, class) in classes.iter().enumerate() {
            if classes[..i].iter().any(|earlier| earlier.name == class.name) {
                return Err(ClassError::Duplicate { name: class.name.clone() });
            }
        }
        Self::from_classes(classes)
    }
}

fn read(input: &mut Reader<'_>) -> Option<Vec<ClassSpec>> {
    if input.take(4)? != MAGIC {
        return None;
    }
    let has_compress = match input.u16()? {
        VERSION => true,
        VERSION_WITHOUT_COMPRESS => false,
        _ => return None,
    };
    let count = usize::from(input.u8()?);
    if count > ClassId::LIMIT {
        return None;
    }
    let mut classes = Vec::with_capacity(count);
    for _ in 0..count {
        let name = text(input, |input| input.u8().map(usize::from), NAME_LIMIT_BYTES)?;
        let place = match input.u8()? {
            0 => Place::Fast,
            1 => Place::Stage,
            2 => Place::Capacity,
            3 => Place::Both,
            _ => return None,
        };
        let read_cache = match input.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let compress = if has_compress { Compress::from_byte(input.u8()?)? } else { Compress::Off };
        let share = f64::from_bits(input.u64()?);
        let priority = input.u16()?;
        let rules = usize::from(input.u8()?);
        if rules > RULES_LIMIT {
            return None;
        }
        let rules = (0..rules)
            .map(|_| text(input, |input| input.u16().map(usize::from), RULE_LIMIT_BYTES))
            .collect::<Option<_>>()?;
        classes.push(ClassSpec { name, place, read_cache, compress, share, priority, rules });
    }
    Some(classes)
}

fn text(input: &mut Reader<'_>, length: fn(&mut Reader<'_>) -> Option<usize>, limit: usize) -> Option<String> {
    let length = length(input).filter(|&length| length <= limit)?;
    String::from_utf8(input.take(length)?.to_vec()).ok()
}
