//! Dies and channels: waiting operations, running operations, and use of the bus.
//!
//! Commands and data hold a channel; array reads, programs and erases do not. A die does one operation at a time. Host reads go first, up
//! to a limit on how long background work may wait, and may suspend programs and erases.

use super::config::{Config, Housekeeping, Suspend, Timing, UNIT_BYTES, Weak};
use super::events::{Event, Events};
use super::shape::{NONE, Shape};

/// Purpose of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    /// Read for a command of the host; `owner` is the command.
    Read,
    /// Read of a piece of the map; `owner` is the command that waits.
    MapRead,
    /// Read-ahead; `base` is the first logical unit.
    Prefetch,
    /// Read of units that collection moves; `owner` is the group, `head` the list of moves.
    CollectRead,
    /// Program of buffered units; `head` is the list of buffer slots.
    HostProgram,
    /// Program of moved units; `head` is the list of moves.
    CollectProgram,
    /// Erase of one die's part of block `base`.
    Erase,
}

/// An operation of one die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub kind: OpKind,
    pub die: u16,
    /// Units that the operation moves over the channel.
    pub units: u16,
    pub owner: u32,
    /// First physical unit, unless the kind defines it otherwise.
    pub base: u32,
    pub head: u32,
    /// Array time.
    pub array_ns: u64,
    queued_ns: u64,
    next: u32,
    loaded: u16,
    suspends: u8,
}

impl Op {
    pub(super) fn new(kind: OpKind, die: u32, array_ns: u64) -> Self {
        Self {
            kind,
            die: die as u16,
            units: 0,
            owner: NONE,
            base: NONE,
            head: NONE,
            array_ns,
            queued_ns: 0,
            next: NONE,
            loaded: 0,
            suspends: 0,
        }
    }

    fn is_program(&self) -> bool {
        matches!(self.kind, OpKind::HostProgram | OpKind::CollectProgram)
    }

    /// Whether a host command may wait for this operation's data.
    pub(super) fn is_for_host(&self) -> bool {
        matches!(self.kind, OpKind::Read | OpKind::MapRead | OpKind::Prefetch)
    }

    fn is_read(&self) -> bool {
        !self.is_program() && self.kind != OpKind::Erase
    }
}

#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
}

const EMPTY: Queue = Queue { head: NONE, tail: NONE };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The page register is being loaded; the die cannot do anything else.
    Loading,
    Array,
    /// Data leaves the die or waits for the channel.
    Out,
}

#[derive(Clone, Copy)]
struct Die {
    reads: Queue,
    background: Queue,
    phase: Phase,
    generation: u16,
    running: u32,
    end_ns: u64,
    /// When the array started or resumed, and when waiting reads may suspend it; 0 where no read waits.
    begun_ns: u64,
    interrupt_ns: u64,
    /// The program whose data is in the page register or on its way there.
    loading: u32,
    loaded: bool,
    suspended: u32,
    suspended_ns: u64,
    remaining_ns: u64,
}

/// All dies and channels.
pub(super) struct Flash {
    ops: Vec<Op>,
    free: u32,
    dies: Vec<Die>,
    bus_free_ns: Vec<u64>,
    read_ns: Vec<u64>,
    program_ns: Vec<u64>,
    pub(super) erase_ns: u64,
    slc_read_ns: u64,
    slc_program_ns: u64,
    weak: Vec<Weak>,
    unit_ns: u64,
    command_ns: u64,
    burst_units: u16,
    cache_program: bool,
    cache_read: bool,
    suspend: Option<Suspend>,
    wait_max_ns: u64,
    housekeeping: Option<Housekeeping>,
    page_units: u32,
}

/// Nanoseconds to transfer `bytes`, rounded up.
pub(super) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s)) as u64
}

impl Flash {
    pub(super) fn new(config: &Config, shape: &Shape) -> Self {
        let Timing { read_ns, program_ns, weak, suspend, .. } = config.timing.clone();
        let t = &config.timing;
        let die = Die {
            reads: EMPTY,
            background: EMPTY,
            phase: Phase::Idle,
            generation: 0,
            running: NONE,
            end_ns: 0,
            begun_ns: 0,
            interrupt_ns: 0,
            loading: NONE,
            loaded: false,
            suspended: NONE,
            suspended_ns: 0,
            remaining_ns: 0,
        };
        Self {
            ops: Vec::new(),
            free: NONE,
            dies: vec![die; shape.dies as usize],
            bus_free_ns: vec![0; shape.channels as usize],
            read_ns,
            program_ns,
            erase_ns: t.erase_ns,
            slc_read_ns: config.slc.map_or(1, |s| s.read_ns),
            slc_program_ns: config.slc.map_or(1, |s| s.program_ns),
            weak,
            unit_ns: transfer_ns(UNIT_BYTES, t.bus_bytes_per_s),
            command_ns: t.command_ns,
            burst_units: (u64::from(t.burst_bytes) / UNIT_BYTES) as u16,
            cache_program: t.cache_program,
            cache_read: t.cache_read,
            suspend,
            wait_max_ns: t.background_wait_max_ns,
            housekeeping: config.housekeeping,
            page_units: shape.page_units,
        }
    }

    /// Array time of a read of physical unit `unit`, on page `page` of its block.
    pub(super) fn read_time_ns(&self, unit: u32, page: u32, slc: bool) -> u64 {
        let base = if slc { self.slc_read_ns } else { self.read_ns[page as usize % self.read_ns.len()] };
        if self.weak.is_empty() || slc {
            return base;
        }
        // Whether a page is weak depends only on its place, by a hash of it (the finaliser of MurmurHash3, public domain).
        let mut h = unit / self.page_units;
        h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
        h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
        h ^= h >> 16;
        let mut place = ((u64::from(h) * 1_000_000) >> 32) as u32;
        for weak in &self.weak {
            if place < weak.pages_ppm {
                return base + weak.extra_ns;
            }
            place -= weak.pages_ppm;
        }
        base
    }

    /// Array time of a program of page `page` of a block.
    pub(super) fn program_time_ns(&self, page: u32, slc: bool) -> u64 {
        if slc { self.slc_program_ns } else { self.program_ns[page as usize % self.program_ns.len()] }
    }

    /// The shortest array time of all operations but erases.
    pub(super) fn array_least_ns(&self) -> u64 {
        let slc = [self.slc_read_ns, self.slc_program_ns];
        let all = self.read_ns.iter().chain(&self.program_ns).chain(slc.iter().filter(|&&ns| ns > 1));
        all.copied().min().unwrap_or(0)
    }

    /// The operation in a die's array; `None` where the announced end is stale.
    pub(super) fn running(&self, d: u16, generation: u16) -> Option<&Op> {
        let die = &self.dies[d as usize];
        (die.generation == generation && die.phase == Phase::Array).then(|| &self.ops[die.running as usize])
    }

    pub(super) fn op(&self, id: u32) -> &Op {
        &self.ops[id as usize]
    }

    /// Frees the slot of an operation that has ended.
    pub(super) fn release(&mut self, id: u32) {
        self.ops[id as usize].next = self.free;
        self.free = id;
    }

    /// Queues an operation on its die.
    pub(super) fn submit(&mut self, mut op: Op, now_ns: u64, events: &mut Events) {
        op.queued_ns = now_ns;
        let id = self.free;
        let id = if id == NONE {
            self.ops.push(op);
            (self.ops.len() - 1) as u32
        } else {
            self.free = self.ops[id as usize].next;
            op.next = NONE;
            self.ops[id as usize] = op;
            id
        };
        let urgent = matches!(op.kind, OpKind::Read | OpKind::MapRead);
        let foreground = op.is_for_host();
        let die = &mut self.dies[op.die as usize];
        let queue = if foreground { &mut die.reads } else { &mut die.background };
        if queue.tail == NONE {
            queue.head = id;
        } else {
            self.ops[queue.tail as usize].next = id;
        }
        queue.tail = id;
        if urgent && die.phase == Phase::Array {
            self.interrupt(op.die, now_ns, events);
        } else {
            self.pick(op.die, now_ns, 0, events);
        }
    }

    fn interrupt(&mut self, d: u16, now_ns: u64, events: &mut Events) {
        let Some(suspend) = self.suspend else { return };
        let die = &mut self.dies[d as usize];
        let op = &mut self.ops[die.running as usize];
        let allowed = if op.is_program() { suspend.program } else { op.kind == OpKind::Erase && suspend.erase };
        let enter_ns =
            if op.is_program() || suspend.erase_enter_ns == 0 { suspend.enter_ns } else { suspend.erase_enter_ns };
        let at_ns = now_ns.max(die.begun_ns + suspend.run_least_ns);
        // An operation that would end before the suspension takes effect is waited for instead.
        if !allowed || op.suspends >= suspend.times_max || die.end_ns <= at_ns + enter_ns {
            return;
        }
        if at_ns > now_ns {
            // The operation must first run for its least time.
            if die.interrupt_ns != at_ns {
                die.interrupt_ns = at_ns;
                events.push(at_ns, Event::Interrupt(d));
            }
            return;
        }
        let waited_ns = now_ns.saturating_sub(op.queued_ns);
        if op.suspends > 0 && waited_ns > suspend.deadline_ns.unwrap_or(self.wait_max_ns) {
            return;
        }
        op.suspends += 1;
        die.suspended = die.running;
        die.suspended_ns = now_ns;
        die.remaining_ns = die.end_ns - now_ns;
        die.running = NONE;
        die.phase = Phase::Idle;
        die.generation = die.generation.wrapping_add(1);
        self.pick(d, now_ns, enter_ns, events);
    }

    /// An operation has run for its least time: suspends it where reads still wait.
    pub(super) fn interrupt_due(&mut self, d: u16, now_ns: u64, events: &mut Events) {
        let die = &self.dies[d as usize];
        if die.interrupt_ns == now_ns && die.phase == Phase::Array && self.waits_urgently(d) {
            self.interrupt(d, now_ns, events);
        }
    }

    /// Whether the first waiting read of a die belongs to a waiting command.
    fn waits_urgently(&self, d: u16) -> bool {
        let head = self.dies[d as usize].reads.head;
        head != NONE && matches!(self.ops[head as usize].kind, OpKind::Read | OpKind::MapRead)
    }

    /// Starts the next operation on a free die.
    fn pick(&mut self, d: u16, now_ns: u64, delay_ns: u64, events: &mut Events) {
        self.load(d, now_ns, events);
        let die = &mut self.dies[d as usize];
        if die.phase != Phase::Idle {
            return;
        }
        let head = die.background.head;
        let (waits, ready) = if die.suspended != NONE {
            (now_ns - die.suspended_ns, true)
        } else if head != NONE {
            let op = &self.ops[head as usize];
            (now_ns - op.queued_ns, !op.is_program() || (die.loaded && die.loading == head))
        } else {
            (0, false)
        };
        if die.reads.head != NONE && !(ready && waits > self.wait_max_ns) {
            let id = die.reads.head;
            die.reads.head = self.ops[id as usize].next;
            if die.reads.head == NONE {
                die.reads.tail = NONE;
            }
            self.begin(d, id, now_ns, delay_ns, events);
        } else if die.suspended != NONE {
            let resume_ns = self.suspend.map_or(0, |s| s.resume_ns);
            die.running = die.suspended;
            die.suspended = NONE;
            die.phase = Phase::Array;
            die.begun_ns = now_ns + resume_ns;
            die.interrupt_ns = 0;
            die.end_ns = die.begun_ns + die.remaining_ns;
            events.push(die.end_ns, Event::ArrayEnd { die: d, generation: die.generation });
        } else if ready {
            die.background.head = self.ops[head as usize].next;
            if die.background.head == NONE {
                die.background.tail = NONE;
            }
            if die.loading == head {
                die.loading = NONE;
                die.loaded = false;
            }
            self.begin(d, head, now_ns, delay_ns, events);
            // The data has left the page register: the next page can be loaded.
            self.load(d, now_ns, events);
        }
    }

    fn begin(&mut self, d: u16, id: u32, now_ns: u64, delay_ns: u64, events: &mut Events) {
        let channel = d as usize % self.bus_free_ns.len();
        let op = &mut self.ops[id as usize];
        op.next = NONE;
        // A program's command was sent before its data.
        let commanded_ns = if op.is_program() {
            now_ns
        } else {
            let at = now_ns.max(self.bus_free_ns[channel]) + self.command_ns;
            self.bus_free_ns[channel] = at;
            at
        };
        let array_ns = op.array_ns;
        let start_ns = (commanded_ns + delay_ns).max(self.housekept_until_ns(d, now_ns));
        let die = &mut self.dies[d as usize];
        die.running = id;
        die.phase = Phase::Array;
        die.begun_ns = start_ns;
        die.interrupt_ns = 0;
        die.end_ns = start_ns + array_ns;
        events.push(die.end_ns, Event::ArrayEnd { die: d, generation: die.generation });
    }

    /// When the drive's own periodic work releases a die; 0 where none occupies it.
    fn housekept_until_ns(&self, d: u16, now_ns: u64) -> u64 {
        let Some(h) = self.housekeeping else { return 0 };
        let turn = now_ns / h.interval_ns;
        let began_ns = turn * h.interval_ns;
        if now_ns - began_ns < h.busy_ns && turn % self.dies.len() as u64 == u64::from(d) {
            began_ns + h.busy_ns
        } else {
            0
        }
    }

    /// Loads the page register for the next program where possible.
    fn load(&mut self, d: u16, now_ns: u64, events: &mut Events) {
        let die = &mut self.dies[d as usize];
        let head = die.background.head;
        if die.loading != NONE || head == NONE || !self.ops[head as usize].is_program() {
            return;
        }
        if !self.cache_program {
            let waits_ns = now_ns - self.ops[head as usize].queued_ns;
            if die.phase != Phase::Idle
                || die.suspended != NONE
                || (die.reads.head != NONE && waits_ns <= self.wait_max_ns)
            {
                return;
            }
            die.phase = Phase::Loading;
        }
        die.loading = head;
        die.loaded = false;
        self.ops[head as usize].loaded = 0;
        self.burst(d, head, now_ns, self.command_ns, events);
    }

    fn burst(&mut self, d: u16, id: u32, now_ns: u64, command_ns: u64, events: &mut Events) {
        let channel = d as usize % self.bus_free_ns.len();
        let op = &mut self.ops[id as usize];
        let units = self.burst_units.min(op.units - op.loaded);
        op.loaded += units;
        let end_ns = now_ns.max(self.bus_free_ns[channel]) + command_ns + u64::from(units) * self.unit_ns;
        self.bus_free_ns[channel] = end_ns;
        events.push(end_ns, Event::Burst(d));
    }

    /// A part of a page has arrived in the register.
    pub(super) fn burst_end(&mut self, d: u16, now_ns: u64, events: &mut Events) {
        let die = &mut self.dies[d as usize];
        let id = die.loading;
        let op = &self.ops[id as usize];
        if op.loaded < op.units {
            self.burst(d, id, now_ns, 0, events);
            return;
        }
        die.loaded = true;
        if die.phase == Phase::Loading {
            // A read that arrived during the load waits for the program or suspends it.
            die.phase = Phase::Idle;
            die.background.head = op.next;
            if die.background.head == NONE {
                die.background.tail = NONE;
            }
            die.loading = NONE;
            die.loaded = false;
            self.begin(d, id, now_ns, 0, events);
            if self.waits_urgently(d) {
                self.interrupt(d, now_ns, events);
            }
            return;
        }
        self.pick(d, now_ns, 0, events);
    }

    /// The array of a die has finished. Returns the operation where it is a program or an erase, which has then ended.
    pub(super) fn array_end(&mut self, d: u16, generation: u16, now_ns: u64, events: &mut Events) -> Option<u32> {
        let die = &mut self.dies[d as usize];
        if die.generation != generation || die.phase != Phase::Array {
            return None;
        }
        let id = die.running;
        let op = &self.ops[id as usize];
        if !op.is_read() {
            die.running = NONE;
            die.phase = Phase::Idle;
            self.pick(d, now_ns, 0, events);
            return Some(id);
        }
        let channel = d as usize % self.bus_free_ns.len();
        let start_ns = now_ns.max(self.bus_free_ns[channel]);
        let end_ns = start_ns + u64::from(op.units) * self.unit_ns;
        self.bus_free_ns[channel] = end_ns;
        die.phase = Phase::Out;
        events.push(end_ns, Event::BusEnd(id));
        if self.cache_read {
            if start_ns == now_ns {
                self.die_free(d, now_ns, events);
            } else {
                events.push(start_ns, Event::DieFree(d));
            }
        }
        None
    }

    /// The register of a die is free for the next operation.
    pub(super) fn die_free(&mut self, d: u16, now_ns: u64, events: &mut Events) {
        let die = &mut self.dies[d as usize];
        die.running = NONE;
        die.phase = Phase::Idle;
        self.pick(d, now_ns, 0, events);
    }

    /// The data of a read has left the die.
    pub(super) fn bus_end(&mut self, id: u32, now_ns: u64, events: &mut Events) {
        if !self.cache_read {
            self.die_free(self.ops[id as usize].die, now_ns, events);
        }
    }
}
