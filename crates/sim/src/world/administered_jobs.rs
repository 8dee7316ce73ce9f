//! Changes of disks that take several steps, as a server takes them: each step is begun when the one before is durable.

use super::World;
use super::administered_disk::after_change;
use super::administered_states::{ADMINISTERED, Job, Known, Stage};
use super::flights::Flight;
use super::halt::Halt;
use crate::oracle::Made;
use forebay_block::DiskId;
use forebay_volume::{AdminError, Op, Request};

/// How often it is looked whether a disk can be made smaller.
const SHRINK_TRIES: u32 = 3;
/// How long a job may take, in nanoseconds.
const TIMEOUT_NS: u64 = 90_000_000_000;
/// How long a job waits for a disk that is in use, in nanoseconds.
const REST_NS: u64 = 1_000_000;
/// Jobs at once, at most.
const JOBS_MAX: usize = 3;

/// What becomes of a job.
enum Next {
    Waits,
    Goes(Stage),
    /// The same, later.
    Rests(Stage),
    Ends,
}

impl World<'_> {
    fn begin_job(&mut self, disk: u16, stage: Stage) {
        let deadline_ns = self.clock.now_ns() + TIMEOUT_NS;
        self.jobs.push(Job { disk, stage, deadline_ns, rests_until_ns: 0 });
    }

    fn may_begin(&self, disk: u16) -> bool {
        self.jobs.len() < JOBS_MAX && self.jobs.iter().all(|job| job.disk != disk)
    }

    /// The removal of the administered disk begins, or of what is left of one.
    pub(super) fn remove_administered(&mut self) -> Result<(), Halt> {
        // A disk with clients is not removed.
        self.settle(0)?;
        let Some(disk) = self.pool.engine.disk_to_remove(ADMINISTERED) else { return Ok(()) };
        let (id, blocks, was_leaving) = (disk.id, disk.size_bytes / 4096, disk.is_being_removed());
        if !self.may_begin(id.0) || self.pool.engine.read_only_reason().is_some() {
            return Ok(());
        }
        let number = after_change(&self.pool.engine);
        self.pool.engine.begin_removal(id);
        self.pool.engine.abandon_base(id);
        if was_leaving {
            self.met("removals that were begun again");
        } else {
            self.met("removals that were begun");
            self.administered_changed(
                number,
                id.0,
                Some(Known { id: id.0, blocks, is_leaving: true, base_blocks: 0 }),
                Made::new(),
            )?;
        }
        self.begin_job(id.0, Stage::Leaves { number });
        Ok(())
    }

    /// The administered disk is to end at a block behind which its host has discarded everything.
    pub(super) fn shrink_administered(&mut self, id: u16, old: u64, blocks: u64, back: u64) {
        if self.may_begin(id) {
            let stage = self.ask_before_shrinking(id, (old, blocks, back), 0, true);
            self.begin_job(id, stage);
        }
    }

    fn ask_before_shrinking(
        &mut self,
        id: u16,
        (old, blocks, back): (u64, u64, u64),
        tries: u32,
        lets_go: bool,
    ) -> Stage {
        let token = self.ask(id, blocks, (old - blocks).min(256), Op::Status { max_extents: 1 });
        if lets_go {
            self.pool.engine.request_checkpoint(false);
        }
        Stage::Shrink { token, old, blocks, tries, back }
    }

    /// A request of the server's own.
    fn ask(&mut self, id: u16, block: u64, blocks: u64, op: Op) -> u64 {
        let token = self.flights.token();
        self.in_flight(token, Flight::Own, DiskId(id));
        self.note(|| format!("submit {token}: the server's own, disk {id} block {block}+{blocks}"));
        self.pool.submit(Request::new(token, DiskId(id), block * 4096, blocks * 4096, op));
        token
    }

    /// Whether a request of the server's own has ended, and how.
    fn answer(&mut self, token: u64) -> Option<bool> {
        self.own.remove(&token)
    }

    /// Nobody is there any more to go on with them.
    pub(super) fn end_jobs(&mut self) {
        self.jobs.clear();
    }

    /// What is being done with disks, for each job.
    pub fn jobs_in_progress(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.jobs.iter().map(|job| match job.stage {
            Stage::Leaves { .. } => "power cuts as a removal is to be durable",
            Stage::Discard { .. } => "power cuts as a removed disk is discarded",
            Stage::Remove => "power cuts as a removed disk is to be empty",
            Stage::Shrink { .. } => "power cuts as a disk is to be made smaller",
            Stage::Back { .. } => "power cuts as a disk is to be made larger again",
        })
    }

    /// Goes on with all jobs.
    pub(super) fn advance_jobs(&mut self) -> Result<(), Halt> {
        let mut at = 0;
        while at < self.jobs.len() {
            let job = self.jobs[at];
            if self.clock.now_ns() < job.rests_until_ns {
                at += 1;
                continue;
            }
            match self.next_of(job)? {
                Next::Goes(stage) => self.jobs[at].stage = stage,
                Next::Rests(stage) => {
                    (self.jobs[at].stage, self.jobs[at].rests_until_ns) = (stage, self.clock.now_ns() + REST_NS);
                }
                Next::Waits if self.clock.now_ns() <= job.deadline_ns => at += 1,
                Next::Waits => {
                    self.met("changes of disks that were not finished in time");
                    self.jobs.swap_remove(at);
                }
                Next::Ends => _ = self.jobs.swap_remove(at),
            }
        }
        Ok(())
    }

    fn next_of(&mut self, Job { disk, stage, deadline_ns, .. }: Job) -> Result<Next, Halt> {
        let engine = &mut self.pool.engine;
        match stage {
            Stage::Leaves { number } => {
                if engine.checkpoint_number() < number && engine.checkpoint_pending() {
                    return Ok(Next::Waits);
                }
                if engine.adoption(DiskId(disk)).is_some() {
                    let number = after_change(engine);
                    engine.abandon_base(DiskId(disk));
                    return Ok(Next::Goes(Stage::Leaves { number }));
                }
                let blocks =
                    engine.disks().find(|found| found.id.0 == disk).map_or(0, |disk| disk.served_bytes() / 4096);
                let token = self.ask(disk, 0, blocks, Op::Discard);
                Ok(Next::Goes(Stage::Discard { token }))
            }
            Stage::Discard { token } => match self.answer(token) {
                None => Ok(Next::Waits),
                Some(false) => Ok(Next::Ends),
                Some(true) => {
                    self.pool.engine.request_checkpoint(false);
                    Ok(Next::Goes(Stage::Remove))
                }
            },
            Stage::Remove => {
                if engine.checkpoint_pending() {
                    return Ok(Next::Waits);
                }
                let number = after_change(engine);
                let name = engine.disks().find(|found| found.id.0 == disk).map(|disk| disk.name.clone());
                let Some(name) = name else { return Ok(Next::Ends) };
                match engine.remove_disk(&name) {
                    Ok(()) => {
                        self.met("removals that came to their end");
                        self.administered_changed(number, disk, None, Made::new())?;
                        Ok(Next::Ends)
                    }
                    Err(AdminError::NotEmpty(_)) => {
                        engine.request_checkpoint(false);
                        Ok(Next::Waits)
                    }
                    Err(_) => Ok(Next::Ends),
                }
            }
            Stage::Back { blocks } => {
                if engine.checkpoint_pending() && !engine.activity().checkpoint {
                    return Ok(Next::Waits);
                }
                if let Some(known) = self.administered().filter(|known| known.id == disk && known.blocks < blocks) {
                    self.met("disks made larger as a checkpoint held them smaller");
                    self.resize_administered(blocks, true, 0)?;
                    self.put((known.blocks, 4), true, None);
                }
                Ok(Next::Ends)
            }
            Stage::Shrink { token, old, blocks, tries, back } => {
                if engine.checkpoint_pending() {
                    return Ok(Next::Waits);
                }
                match self.answer(token) {
                    None => return Ok(Next::Waits),
                    Some(false) => return Ok(Next::Ends),
                    Some(true) => {}
                }
                if self.administered().is_none_or(|known| (known.id, known.blocks) != (disk, old)) {
                    return Ok(Next::Ends);
                }
                let number = after_change(&self.pool.engine);
                let is_time = self.clock.now_ns() <= deadline_ns;
                match self.pool.engine.resize_disk(ADMINISTERED, blocks * 4096) {
                    Ok(()) => {
                        self.note_shrunk(number, disk, (old, blocks))?;
                        Ok(if back > blocks { Next::Goes(Stage::Back { blocks: back }) } else { Next::Ends })
                    }
                    Err(AdminError::MappedBeyond(_)) if tries < SHRINK_TRIES => {
                        Ok(Next::Goes(self.ask_before_shrinking(disk, (old, blocks, back), tries + 1, true)))
                    }
                    Err(AdminError::InUse(_)) if is_time => {
                        Ok(Next::Rests(self.ask_before_shrinking(disk, (old, blocks, back), tries, false)))
                    }
                    Err(_) => Ok(Next::Ends),
                }
            }
        }
    }
}
