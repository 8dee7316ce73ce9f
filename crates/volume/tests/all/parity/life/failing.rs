//! Damaged or lost members, failed flushes, and power cuts during one.

use super::{Life, MEMBER_BYTES, Member, Written, candidate, content, join, run};
use forebay_block::{Buf, Op, Vectored};
use forebay_volume::mirror::MemberState;
use std::collections::BTreeSet;

impl Life {
    /// How many more members may be lost.
    pub(super) fn left(&self) -> usize {
        self.shape.parity.saturating_sub(self.hurt.len() + self.silent.len())
    }

    /// Rots blocks of some members, as many as may be bad.
    pub(super) fn hurt(&mut self) {
        let left = self.left();
        if left == 0 {
            return;
        }
        let member = self.random.below(self.shape.members() as u64) as usize;
        self.hurt.insert(member);
        self.rotten.insert(member);
        for _ in 0..20 {
            let rows = self.shape.rows().min(6 * self.shape.band_rows());
            let row = self.random.below(rows);
            let offset = MEMBER_BYTES as u64 - 4096 - (self.blocks_of_member() - row) * 4096;
            // With one block of parity, rot cannot be distinguished from parity torn while a neighbour was rewritten.
            if left > 1 && self.random.below(2) == 0 {
                self.silent.insert(member);
                self.members[member].rot(offset + self.random.below(4096));
            } else {
                self.members[member].medium().dead_blocks.insert(offset / 4096);
            }
        }
    }

    /// Loses some members, as many as may be lost.
    pub(super) fn lose(&mut self) -> BTreeSet<usize> {
        let count = self.random.below(self.left() as u64 + 1);
        let lost: BTreeSet<usize> = (0..count)
            .map(|_| self.random.below(self.shape.members() as u64) as usize)
            .filter(|number| !self.rotten.contains(number))
            .collect();
        self.hurt.extend(lost.iter().copied());
        lost
    }

    /// Members in this state, by name, because a replacement takes any free place.
    fn numbers_of(&self, state: MemberState) -> Vec<usize> {
        let status = self.array.as_ref().unwrap().1.members().status();
        let of = status.members.iter().filter(|member| member.state == state).map(|member| &member.name);
        of.filter_map(|name| self.members.iter().position(|member| member.medium().name == *name)).collect()
    }

    /// More members than can be left behind fail a flush, each once, and lose their caches; the writer then rewrites the data.
    pub(super) fn fail_a_flush(&mut self) {
        // The opening has rewritten data that may have been torn.
        self.array.as_ref().unwrap().1.members().settle();
        let there = self.numbers_of(MemberState::InSync);
        let spare = there.len() - self.shape.data;
        let failing = spare + 1 + self.random.below(self.shape.data as u64) as usize;
        for &number in there.iter().cycle().skip(self.random.below(8) as usize).take(failing) {
            self.members[number].medium().fails_flush = true;
        }
        self.fails_flush = true;
        if self.random.below(2) == 0 {
            self.settle();
            let band = self.random.below(6);
            self.discard(band);
        }
        // What is wrong with them is not over at once.
        let number = there[self.random.below(there.len() as u64) as usize];
        self.members[number].medium().fails_reads = self.random.below(4) as u32;
        self.flush();
        self.settle();
        self.members.iter().for_each(|member| (member.medium().fails_flush, member.medium().fails_reads) = (false, 0));
        self.fails_flush = false;
        if std::mem::take(&mut self.has_flush_failed) {
            let again = self.model.iter().filter(|(_, written)| !written.durable);
            let again: Vec<(u64, Written)> = again.map(|(&block, &written)| (block, written)).collect();
            // Its own flush may have failed too, which the next flush of a host reports.
            let is_good = (0..2).any(|_| {
                for (block, written) in &again {
                    let bufs = Vectored::One(Buf::copy_of(&content(*block, written.tag)).freeze());
                    let (offset, (array, _)) = (self.offset(*block), self.array.as_mut().unwrap());
                    assert_eq!(run(array, offset, Op::Write { bufs, fua: false }).result, Ok(()));
                }
                run(&mut self.array.as_mut().unwrap().0, 0, Op::Flush).result.is_ok()
            });
            assert!(is_good);
            self.model.values_mut().for_each(|written| (written.acked, written.durable) = (true, true));
        }
        assert_eq!(self.array.as_ref().unwrap().1.members().status().broken, None);
        // A member that failed alone, after the others had ended that flush, was left behind.
        for number in self.numbers_of(MemberState::Out) {
            self.hurt.insert(number);
            self.members[number].medium().is_dead = true;
        }
    }

    /// A member fails a flush, the array answers without it, and the power fails at that moment: the member must not be believed when it
    /// returns.
    pub fn lose_one_and_the_power(&mut self) {
        self.write_some(40);
        self.settle();
        let number = self.random.below(self.members.len() as u64) as usize;
        self.members[number].medium().is_dead = true;
        self.flush();
        self.settle();
        self.members[number].medium().is_dead = false;
        self.array = None;
        self.members.iter().for_each(Member::cut);
        let mut new_id = || [200; 16];
        let joined = join(self.members.iter().map(candidate).collect(), None, Some(&mut new_id), false).unwrap();
        let state = joined.view.members().status().members[number].state;
        assert_ne!(state, MemberState::InSync, "what it holds is older than what was answered");
    }
}
