//! The requests of hosts that are not answered yet.

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
    /// Who reads in sequence, and what was read ahead of them.
    pub(super) readers: Readers,
    pub(super) ahead: Ahead,
    /// Pieces that hold a leaf which they will change.
    pub executing: usize,
    pub completions: VecDeque<Completion>,
    /// Reused scratch space: no allocation per request.
    pub(super) runs: Vec<Run>,
    pub(super) woken: Vec<u32>,
}

impl Requests {
    /// None yet; so much may be read ahead of them.
    pub fn new(ahead: Ahead) -> Self {
        Self { ahead, ..Self::default() }
    }

    /// Changes in flight, those that wait among them, with the one that asks.
    pub fn changes_with_one_more(&self) -> usize {
        self.executing + self.waiting.len() + 1
    }

    /// Blocks of the first who waits for space, rather than for a turn or a checkpoint.
    pub fn space_wanted(&self) -> u64 {
        let first = self.waiting.first(Wants::Space).and_then(|id| self.pieces.get(id as usize));
        first.map_or(0, |piece| u64::from(piece.blocks))
    }
}
