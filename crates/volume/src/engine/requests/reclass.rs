//! Classes of blocks: given when blocks are written, and changed when the host's evidence of them comes later.

use super::piece::Fill;
use crate::engine::Engine;
use crate::layout::page::Entry;
use crate::request::{HintPart, HintParts};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, ClassId, DiskId};
use forebay_prism::{Direction, HostFacts, Intent, Lifetime, Run};
use smallvec::SmallVec;

/// What a change of class is based on.
pub(crate) struct Reclass {
    disk: DiskId,
    export: u16,
    tag: Option<ClassId>,
    /// First block of the request, at which `hints` begins.
    begin: u64,
    hints: HintParts,
    /// The last decision: number of the part, class before, class after.
    last: Option<(usize, ClassId, ClassId)>,
    /// Blocks on the fast tier that this piece has given to each class already.
    granted: SmallVec<[(ClassId, u64); 2]>,
}

/// The part in which block `at` of a request lies: its number, its first block, and the part.
fn part_at(parts: &[HintPart], at: u64) -> Option<(usize, u64, &HintPart)> {
    let mut begin = 0;
    for (number, part) in parts.iter().enumerate() {
        if at < begin + part.blocks {
            return Some((number, begin, part));
        }
        begin += part.blocks;
    }
    None
}

/// What hints say of block `at` of a request. Its part begins at `begin`.
fn facts_at(part: &HintPart, begin: u64, at: u64) -> HostFacts<'_> {
    let mut facts = part.hints.facts();
    facts.file_offset_bytes = facts.file_offset_bytes.map(|offset| offset.saturating_add((at - begin) * BLOCK));
    facts
}

impl Engine {
    /// Classifies the blocks of a write; the runs are appended to `runs`.
    pub(super) fn classify(&mut self, client: u32, disk: DiskId, first_block: u64, data: &[u8], runs: &mut Vec<Run>) {
        let disk_size_bytes = self.map.disks.get(&disk.0).map_or(0, |entry| entry.size_bytes);
        let Self { requests, prism, .. } = self;
        let client = requests.clients.get(client as usize);
        let whole = Intent {
            disk,
            disk_size_bytes,
            offset_bytes: first_block * BLOCK,
            direction: Direction::Write,
            len_bytes: data.len() as u64,
            request_bytes: client.map_or(data.len() as u64, |client| client.len_bytes),
            rest_bytes: client.map_or(0, |client| {
                let end_bytes = client.offset_bytes.saturating_add(client.len_bytes);
                end_bytes.saturating_sub(first_block * BLOCK + data.len() as u64)
            }),
            data,
            export: client.map_or(0, |client| client.export),
            tag: client.and_then(|client| client.tag),
            host: HostFacts::default(),
        };
        let Some((client, hints)) = client.and_then(|client| Some((client, client.hints.as_deref()?))) else {
            return prism.classify(&whole, runs);
        };
        let begin = first_block - client.offset_bytes / BLOCK;
        let end = begin + whole.len_bytes / BLOCK;
        let mut at = begin;
        while at < end {
            let (until, host) = match part_at(hints, at) {
                Some((_, first, part)) => ((first + part.blocks).min(end), facts_at(part, first, at)),
                None => (end, HostFacts::default()),
            };
            let (from, to) = ((at - begin) * BLOCK, (until - begin) * BLOCK);
            let part = Intent {
                offset_bytes: whole.offset_bytes + from,
                len_bytes: to - from,
                data: &data[from as usize..to as usize],
                host,
                ..whole
            };
            prism.classify(&part, runs);
            at = until;
        }
    }

    /// The host's hint of how long the data that it writes to a block will live.
    pub(super) fn lifetime_hint(&self, client: u32, block: u64) -> Lifetime {
        let client = self.requests.clients.get(client as usize);
        let hinted = client.and_then(|client| {
            let at = block.checked_sub(client.offset_bytes / BLOCK)?;
            part_at(client.hints.as_deref()?, at)?.2.hints.facts().lifetime
        });
        hinted.unwrap_or_default()
    }

    /// What the change of class that a piece belongs to is based on.
    pub(super) fn reclass_of(&self, piece: u32) -> Reclass {
        let piece = self.requests.pieces.get(piece as usize);
        let client = piece.and_then(|piece| self.requests.clients.get(piece.client as usize));
        Reclass {
            disk: piece.map_or(DiskId(0), |piece| piece.disk),
            export: client.map_or(0, |client| client.export),
            tag: client.and_then(|client| client.tag),
            begin: client.map_or(0, |client| client.offset_bytes / BLOCK),
            hints: client.and_then(|client| client.hints.as_deref().cloned()).unwrap_or_default(),
            last: None,
            granted: SmallVec::new(),
        }
    }
}

impl Reclass {
    /// What an entry becomes; `None` where it keeps its class.
    pub(super) fn fill(&mut self, engine: &mut Engine, block: u64, entry: Entry) -> Option<Fill> {
        let Entry::Data { span, class: before } = entry else { return None };
        let at = block.checked_sub(self.begin)?;
        let (number, first, part) = part_at(&self.hints, at)?;
        let class = match self.last {
            Some((known, from, to)) if (known, from) == (number, before) => to,
            _ => {
                let intent = Intent {
                    disk: self.disk,
                    disk_size_bytes: 0,
                    offset_bytes: block * BLOCK,
                    direction: Direction::Write,
                    len_bytes: BLOCK,
                    request_bytes: BLOCK,
                    rest_bytes: 0,
                    data: &[],
                    export: self.export,
                    tag: self.tag,
                    host: facts_at(part, first, at),
                };
                let class = engine.prism.reclass(&intent, before);
                self.last = (!engine.prism.reclass_uses_place()).then_some((number, before, class));
                class
            }
        };
        if class == before {
            return None;
        }
        if engine.setup.extents.is_fast(span.location) {
            let at = self.granted.iter().position(|(known, _)| *known == class).unwrap_or(self.granted.len());
            let granted = self.granted.get(at).map_or(1, |(_, blocks)| blocks + 1);
            if !engine.has_share(class, granted) {
                engine.stats.counters.reclass_refused_blocks += 1;
                return None;
            }
            match self.granted.get_mut(at) {
                Some(entry) => entry.1 = granted,
                None => self.granted.push((class, granted)),
            }
        }
        Some(Fill::Reclass { class })
    }
}
