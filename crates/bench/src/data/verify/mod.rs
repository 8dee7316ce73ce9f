//! Verifying: a read must return the last data that was written to this place.
//!
//! Each write gets a generation, and each of its units a header ([`Header`]). [`WrittenMap`] records what must be on
//! the target. A read is judged by the state of the map before it was submitted and after it completed.
//!
//! **Order of calls.** Write: [`WrittenMap::before_write`], [`super::Content::stamp`] with the generation it gave,
//! submit, and on completion [`WrittenMap::after_write`] or [`WrittenMap::failed_write`]. Read:
//! [`WrittenMap::before_read`], submit, [`WrittenMap::judge_read`]. Trim: [`WrittenMap::before_discard`], submit,
//! [`WrittenMap::after_discard`] whether or not it failed.
//!
//! **What is judged**, for each granule (the largest piece that every I/O of the job covers whole or not at all). Writes
//! to a granule that overlap in time form a *period*: it begins when a write is announced and none is in flight, and
//! ends when none is left.
//! - No write in flight between `before_read` and `judge_read`, and the last period was one write: exactly that
//!   generation must be there, undamaged. This is the common case, and nothing escapes it.
//! - The last period was several writes: any of them may have been the last, and below the size of a unit a target may
//!   mix them (NVMe promises atomicity for AWUN blocks only). A header of this run, for this place, from this period on
//!   is demanded; the CRC of the content is not judged.
//! - A write was in flight at some time during the read: the target may give the old, the new, or sectors of both. A
//!   header of this run, for this place, and not older than what was there before is demanded; the CRC of the content
//!   is not judged. Where a trim began or a write failed at the same time, anywhere, nothing is.
//! - Never written in this run: nothing is demanded of what has no header. A unit that has one, from whatever run, is
//!   judged by itself: place, and CRC of header and content; its age cannot be known. So what one process wrote another
//!   one can check, and a write that went astray is found.
//! - Last trimmed, or last written with an error: nothing is demanded.
//!
//! So a sound target is never accused, whatever the threads do, under two assumptions: the target reads and writes at
//! least sectors of 512 bytes atomically, and a write that has failed does not arrive later. [`Judged`] counts the
//! units by the way in which they were judged, so that a result can say how much was really verified.
//!
//! A write costs 37 ns for the map, a read some 80 ns for 4 KiB with its CRC; a map takes 8 bytes a granule.
//!
//! **Rules.** All sizes, the alignment and the stride of a job are multiples of 512 bytes ([`Layout::of`]). Regions of
//! jobs that run at once do not overlap, or the jobs share one map and one seed. The seed in the headers should belong
//! to this run alone (the job's seed mixed with the time): with the seed of an earlier run, granules of the third kind
//! cannot be distinguished from those of that run. If the target's addresses have shifted since an earlier run wrote to
//! it, every unit of that run looks like a misdirected write.

mod header;
mod judge;
mod layout;
mod map;
#[cfg(test)]
mod tests;

pub use header::{HEADER_BYTES, Header};
pub use judge::{Judged, Mismatch, MismatchKind, check, check_alone};
pub use layout::{Layout, MAP_BYTES_MAX, VerifyError};
pub use map::{ReadView, WrittenMap};
