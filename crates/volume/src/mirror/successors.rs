//! Devices that take the places of members that are out, and members that wait for their rebuild: of a mirror, or of a tier with parity.

use super::former::Former;
use super::member::Member;
use super::view::{MemberState, MemberStatus, MirrorView, Offer};
use crate::layout::Id;
use forebay_block::{Completion, Device};
use std::collections::VecDeque;

/// A device that has taken a place.
pub(crate) struct Taken {
    pub number: usize,
    pub id: Id,
    pub former: Option<Former>,
}

/// Which devices and members come next.
pub(crate) struct Successors {
    view: MirrorView,
    /// Members that are to be rebuilt after the one that is being rebuilt.
    to_rebuild: VecDeque<usize>,
    /// Devices whose places others have taken, by their names, while requests are in flight on them: these requests still name memory.
    replaced: Vec<(String, Member)>,
    scratch: Vec<Completion>,
}

impl Successors {
    pub fn new(view: MirrorView, to_rebuild: VecDeque<usize>) -> Self {
        let successors = Self { view, to_rebuild, replaced: Vec::new(), scratch: Vec::new() };
        successors.say();
        successors
    }

    /// Publishes which places are taken by members that wait.
    fn say(&self) {
        self.view.set_queued(self.to_rebuild.iter().fold(0, |bits, number| bits | 1 << number));
    }

    /// Begins to rebuild the next member, where none is being rebuilt.
    pub fn begin_rebuild(&mut self, list: &mut [Member]) -> Option<usize> {
        let is_idle = list.iter().all(|member| member.state != MemberState::Rebuilding);
        let number = self.to_rebuild.pop_front_if(|_| is_idle)?;
        self.say();
        list[number].state = MemberState::Rebuilding;
        self.view.set_member(number, MemberState::Rebuilding, None);
        Some(number)
    }

    /// Closes the devices of members that were left behind and are not to be rebuilt, so that others may open them, or they may be given
    /// back.
    pub fn close_left(&self, list: &mut [Member]) {
        for (number, member) in list.iter_mut().enumerate() {
            let is_left = member.state == MemberState::Out && !self.to_rebuild.contains(&number);
            if is_left && member.device.is_some() && !member.is_busy() {
                member.device = None;
            }
        }
    }

    /// Takes the answers of devices whose places others have taken: they go to nobody.
    pub fn poll_replaced(&mut self) {
        if self.replaced.is_empty() {
            return;
        }
        for device in self.replaced.iter_mut().filter_map(|(_, member)| member.device.as_mut()) {
            device.poll(&mut self.scratch);
        }
        self.scratch.clear();
        self.replaced.retain(|(_, member)| member.is_busy());
    }

    /// Takes one offered device in the place of a member that is out, where there is one to take. It is rebuilt as soon as no other is. A
    /// device under the name of one with requests in flight waits for these: it may be the same device, and these requests would be written
    /// over what is rebuilt. Other offers do not wait for it.
    pub fn take(&mut self, list: &mut [Member]) -> Option<Taken> {
        if !self.view.has_offers() {
            return None;
        }
        let names = self.view.names();
        let works = |name: &str| (0..list.len()).any(|at| names[at] == name && list[at].state != MemberState::Out);
        let is_in_flight = |name: &str| {
            let of_members = names.iter().zip(&*list).any(|(other, member)| other == name && member.is_busy());
            of_members || self.replaced.iter().any(|(other, _)| other == name)
        };
        let mut gone = Vec::new();
        let taken = self.view.change_offers(|offers| {
            let mut first = None;
            for mut offer in std::mem::take(offers) {
                match self.place_for(&offer.name, &names, list) {
                    // The device has become a member, under the same name.
                    None if works(&offer.name) => {}
                    None => gone.push(offer.name),
                    Some(number) if first.is_none() && !is_in_flight(&offer.name) => first = Some((number, offer)),
                    Some(_) => {
                        offer.waits = is_in_flight(&offer.name);
                        offers.push_back(offer);
                    }
                }
            }
            first
        });
        for name in gone {
            self.view.not_taken(name);
        }
        let (number, Offer { name, id, device, former, .. }) = taken?;
        self.replace(list, number, (&names[number], device));
        let status = MemberStatus { name, id, state: MemberState::Out, why: None, failed_reads: 0, configured: None };
        self.view.set_status(|all| all.members[number] = status);
        if !self.to_rebuild.contains(&number) {
            self.to_rebuild.push_back(number);
        }
        self.say();
        Some(Taken { number, id, former })
    }

    fn replace(&mut self, list: &mut [Member], number: usize, (name, device): (&str, Box<dyn Device>)) {
        let old = std::mem::replace(&mut list[number], Member::new(Some(device), MemberState::Out));
        if old.is_busy() {
            self.replaced.push((name.to_owned(), old));
        }
    }

    /// The place of a device of this name: that of the member that is out under the same name, even where it already waits for its rebuild,
    /// else that of one that is not there, else that of any that is out. `None` where a member of this name works: what is written to one
    /// member must not lie where another has something else.
    fn place_for(&self, name: &str, names: &[String], list: &[Member]) -> Option<usize> {
        let of_name = |number: &usize| names[*number] == name;
        let (out, working): (Vec<usize>, Vec<usize>) =
            (0..list.len()).partition(|&number| list[number].state == MemberState::Out);
        if working.iter().any(of_name) {
            return None;
        }
        let free: Vec<usize> = out.iter().copied().filter(|number| !self.to_rebuild.contains(number)).collect();
        let absent = free.iter().copied().find(|&number| list[number].device.is_none());
        out.into_iter().find(of_name).or(absent).or(free.first().copied())
    }
}
