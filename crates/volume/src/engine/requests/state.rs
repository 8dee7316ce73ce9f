//! Host requests that are not answered yet.

use super::ahead::Ahead;
use super::client::Client;
use super::piece::Piece;
use super::ranges::Ranges;
use super::readers::Readers;
use super::streams::Streams;
use super::wants::{Waiting, Wants};
use crate::request::Completion;
use forebay_prism::Run;
use slab::Slab;
use std::collections::VecDeque;

/// Requests of hosts.
#[derive(Default)]
pub(crate) struct Requests {
    pub clients: Slab<Client>,
    pub pieces: Slab<Piece>,
    pub ranges: Ranges,
    pub waiting: Waiting,
    pub(super) streams: Streams,
    /// The sequential readers, and what was read ahead of them.
    pub(super) readers: Readers,
    pub(super) ahead: Ahead,
    /// Pieces that have pinned a leaf which they will change.
    pub executing: usize,
    pub completions: VecDeque<Completion>,
    /// Reused scratch space: no allocation per request.
    pub(super) runs: Vec<Run>,
    pub(super) woken: Vec<u32>,
}

impl Requests {
    /// No requests yet; `ahead` bounds what may be read ahead of them.
    pub fn new(ahead: Ahead) -> Self {
        Self { ahead, ..Self::default() }
    }

    /// Changes in flight, waiting ones included, and the one that asks.
    pub fn changes_with_one_more(&self) -> usize {
        self.executing + self.waiting.len() + 1
    }

    /// Blocks of the first piece in the queue for space. Pieces that wait for a turn or a checkpoint do not count.
    pub fn space_wanted(&self) -> u64 {
        let first = self.waiting.first(Wants::Space).and_then(|id| self.pieces.get(id as usize));
        first.map_or(0, |piece| u64::from(piece.blocks))
    }
}
