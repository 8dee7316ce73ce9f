//! The parts of a root's blob: a row of tagged sections, each with its own checksum.

use super::codec::{Reader, Writer};
use super::{is_sealed, seal};
use std::collections::BTreeMap;
use thiserror::Error;

/// Names a section.
pub(super) type Tag = [u8; 4];

/// A program that does not know the section may keep it.
pub(super) const COMPATIBLE: u8 = 1;
/// Bytes before the payload of a section.
pub(super) const HEADER_BYTES: usize = 16;

/// A section of a newer program, kept byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSection {
    /// Its tag.
    pub tag: [u8; 4],
    /// Its shard.
    pub shard: u16,
    /// What is in it.
    pub payload: Vec<u8>,
}

impl KeptSection {
    /// Bytes that it takes in a blob.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload.len()) as u64
    }
}

/// Why a blob is not a root.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("section {section} of it: {what}")]
pub struct RootError {
    /// The section.
    pub section: String,
    /// What is wrong.
    pub what: &'static str,
}

/// What is wrong with a section.
pub(super) fn error(tag: Tag, what: &'static str) -> RootError {
    let section = tag.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect();
    RootError { section, what }
}

/// Appends a section.
pub(super) fn put_section(w: &mut Writer, (tag, shard, flags): (Tag, u16, u8), put: impl FnOnce(&mut Writer)) {
    let start = w.bytes.len();
    w.bytes.extend_from_slice(&tag);
    w.u32(0);
    w.u32(0);
    w.u16(shard);
    w.u8(flags);
    w.u8(0);
    put(w);
    let len = (w.bytes.len() - start - HEADER_BYTES) as u32;
    w.bytes[start + 8..start + 12].copy_from_slice(&len.to_le_bytes());
    seal(&mut w.bytes[start..]);
}

/// Cuts a blob into the payloads of sections that are in `known`, by tag, and others that may be kept.
#[expect(clippy::type_complexity, reason = "named nowhere else")]
pub(super) fn split<'a>(
    bytes: &'a [u8],
    known: &[Tag],
) -> Result<(BTreeMap<Tag, &'a [u8]>, Vec<KeptSection>), RootError> {
    let (mut payloads, mut kept) = (BTreeMap::new(), Vec::<KeptSection>::new());
    let mut rest = bytes;
    while !rest.is_empty() {
        let tag: Tag = rest.first_chunk().copied().unwrap_or_default();
        let (len, shard, flags) = header(rest).ok_or_else(|| error(tag, "it is cut short"))?;
        let end = HEADER_BYTES.checked_add(len).ok_or_else(|| error(tag, "it is cut short"))?;
        let (section, after) = rest.split_at_checked(end).ok_or_else(|| error(tag, "it is cut short"))?;
        rest = after;
        if !is_sealed(section, tag) {
            return Err(error(tag, "its checksum does not match"));
        }
        let payload = &section[HEADER_BYTES..];
        if known.contains(&tag) {
            if shard != 0 || flags != 0 || payloads.insert(tag, payload).is_some() {
                return Err(error(tag, "it is there twice, or of a shard that is not there"));
            }
        } else if flags != COMPATIBLE {
            return Err(error(tag, "it needs a newer program"));
        } else if kept.iter().any(|other| (other.tag, other.shard) == (tag, shard)) {
            return Err(error(tag, "it is there twice"));
        } else {
            kept.push(KeptSection { tag, shard, payload: payload.to_vec() });
        }
    }
    Ok((payloads, kept))
}

/// Length of the payload, shard and flags of the section that begins here.
fn header(bytes: &[u8]) -> Option<(usize, u16, u8)> {
    let mut r = Reader::new(bytes.get(8..HEADER_BYTES)?);
    Some((r.u32()? as usize, r.u16()?, r.u8()?))
}
