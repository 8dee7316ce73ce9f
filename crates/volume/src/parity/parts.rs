//! What an array is made of, and how the device is made of it.

use super::array::Array;
use super::chores::Upkeep;
use super::code::Code;
use super::core::Core;
use super::found::FoundRows;
use super::fronts::Fronts;
use super::label_places::LabelPlaces;
use super::members::Members;
use super::open_rows::OpenRows;
use super::roster::Roster;
use super::unflushed::Unflushed;
use super::view::ArrayView;
use crate::layout::Id;
use crate::layout::array_label::ArrayLabel;
use crate::layout::array_shape::{BLOCK, Shape};
use crate::layout::member_label::logical_block_bytes;
use crate::mirror::{Member, MemberState, MirrorStatus, MirrorView, Ranges};
use forebay_block::{Device, Geometry};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};

/// What an array is made of.
pub(super) struct Parts {
    pub members: Vec<Member>,
    /// Of each member the name of its device; empty where none is there.
    pub names: Vec<String>,
    /// Says which members hold everything.
    pub label: ArrayLabel,
    /// Where each member has labels.
    pub places: Vec<LabelPlaces>,
    /// Members that wait to be rebuilt, in turn.
    pub to_rebuild: VecDeque<usize>,
    /// What the log says of open rows.
    pub found: FoundRows,
    /// No device has this label yet: it is written with the first change.
    pub is_new: bool,
    /// Nothing on the devices counts.
    pub is_blank: bool,
}

impl Parts {
    /// Makes the array, and a handle to it.
    pub fn build(mut self) -> (Array, ArrayView) {
        let shape = self.label.shape;
        let there = self.members.iter().filter_map(|member| Some(member.device.as_ref()?.geometry()));
        let geometry = geometry_of(&shape, self.label.logical_block_bytes, there);
        let view = self.view(&geometry);
        let there: Vec<&str> = self.names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let name = there.join(" + ");
        let unsure = self.unsure_slots(&geometry);
        let mut upkeep = Upkeep { is_settling: !self.found.is_empty() || !unsure.is_empty(), ..Upkeep::default() };
        if let Some(member) = self.label.rebuilding {
            upkeep.begin_rebuild(usize::from(member), self.label.rebuilt_rows);
        }
        let core = Core {
            // A label has no other shape.
            code: Code::new(shape.data, shape.parity),
            pool: self.label.pool,
            open: OpenRows::new(&shape, self.found.slots(), unsure, geometry.volatile_cache),
            sequence: self.found.newest,
            found: self.found,
            settled: BTreeSet::new(),
            unflushed: Unflushed::default(),
            fronts: Fronts::new(&shape, self.is_blank),
            roster: Roster::new(self.label, self.places, self.is_new, self.to_rebuild, view.clone()),
            upkeep,
            view: view.clone(),
            locks: Ranges::default(),
            held: VecDeque::new(),
            starved: Vec::new(),
            logged: Vec::new(),
            discarding: Vec::new(),
            next: VecDeque::new(),
            jobs: Slab::new(),
            ops: Slab::new(),
            next_lock: 0,
            flushes: 0,
            is_flushing: false,
            to_flush: Vec::new(),
            lost: None,
            is_volatile: geometry.volatile_cache,
            done: Vec::new(),
            unanswered: Vec::new(),
            members: Members::new(self.members),
            shape,
        };
        (Array::new(name, geometry, core), view)
    }

    /// What is shown of the array at first.
    fn view(&self, geometry: &Geometry) -> ArrayView {
        let (shape, label) = (self.label.shape, &self.label);
        let shown =
            self.members.iter().zip(&self.names).zip(&label.ids).map(|((member, name), id)| member.status(name, *id));
        let status = MirrorStatus {
            members: shown.collect(),
            generation: label.generation,
            rebuilt_bytes: label.rebuilt_rows * BLOCK,
            size_bytes: shape.member_bytes,
            mended_blocks: 0,
            unreadable_blocks: 0,
            broken: None,
        };
        let member = Geometry { size_bytes: shape.member_bytes, ..geometry.clone() };
        ArrayView::new(MirrorView::new(status, label.pool, member), shape)
    }

    /// Places of the log of which it is not known what lies there. A cache may show any of them as erased although the erasure is lost.
    fn unsure_slots(&mut self, geometry: &Geometry) -> BTreeSet<u32> {
        let mut unsure = std::mem::take(&mut self.found.unsure);
        if geometry.volatile_cache && !self.is_blank {
            unsure.extend(0..self.label.shape.log_slots);
        }
        unsure
    }
}

/// The geometry of a new array over such devices.
#[must_use]
pub fn geometry_of<'a>(
    shape: &Shape,
    logical_block_bytes: u32,
    members: impl Iterator<Item = &'a Geometry>,
) -> Geometry {
    let (mut volatile_cache, mut durable_writes) = (false, true);
    for geometry in members {
        volatile_cache |= geometry.volatile_cache;
        durable_writes &= !geometry.volatile_cache || geometry.durable_writes;
    }
    Geometry {
        size_bytes: shape.size_bytes(),
        logical_block_bytes,
        optimal_band_bytes: None,
        volatile_cache,
        durable_writes,
        // The array learns from discards what is free, whether or not its members support them.
        discards: true,
    }
}

/// Makes a new array over these devices, whatever they hold; its label is written with the first change. `ids`: one for each device.
#[must_use]
pub fn new_array(devices: Vec<Box<dyn Device>>, shape: Shape, pool: Id, ids: &[Id]) -> (Array, ArrayView) {
    let names = devices.iter().map(|device| device.name().to_owned()).collect();
    let label = ArrayLabel {
        pool,
        member: 0,
        generation: 0,
        serial: 0,
        shape,
        ids: ids.to_vec(),
        in_sync: (0..devices.len()).fold(0, |bits, number| bits | 1 << number),
        rebuilding: None,
        rebuilt_rows: 0,
        missing: 0,
        logical_block_bytes: logical_block_bytes(devices.iter().map(|device| device.geometry())),
    };
    let members = devices.into_iter().map(|device| Member::new(Some(device), MemberState::InSync)).collect();
    let parts = Parts {
        places: vec![LabelPlaces::BLANK; label.ids.len()],
        members,
        names,
        label,
        to_rebuild: VecDeque::new(),
        found: FoundRows::default(),
        is_new: true,
        is_blank: true,
    };
    parts.build()
}
