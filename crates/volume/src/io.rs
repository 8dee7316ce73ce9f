//! Devices of a pool, and running requests on them to the end (for formatting, recovery and verification).

use crate::absent::{Absent, unanswered};
use crate::layout::member_label::{LABEL_BYTES, MemberLabel, OFFSETS_BYTES};
use crate::layout::page::GRAIN_BYTES;
use crate::mirror::{CapacityLabels, MirrorView};
use crate::parity::ArrayView;
use crate::readings::{Neighbours, Place, Reading, single};
use forebay_block::{Buf, Completion, Device, IoError, IoErrorKind, Op, Request, SECTOR_BYTES, Vectored};

/// The devices of a pool: index 0 is the fast one.
pub struct Devices {
    /// The devices of the pool, and behind them bases of its disks.
    pub list: Vec<Box<dyn Device>>,
    /// How many are bases.
    bases: usize,
    /// Bytes read since the start, for the statement of what recovery reads.
    pub read_bytes: u64,
    /// Labels on the capacity devices, where the fast device is a mirror.
    pub(crate) labels: Option<CapacityLabels>,
    /// Where the capacity device consists of several with parity.
    array: Option<ArrayView>,
    /// Flushes of labels that failed: the next flush of each device fails, too.
    lost_flushes: Vec<(usize, IoError)>,
    /// Nothing may be written.
    pub(crate) is_read_only: bool,
    /// After so many waits without any answer silent devices are given up.
    silent_waits_max: u32,
}

/// How long one wait for a device lasts before it is asked again.
const WAIT_NS: u64 = 1_000_000_000;

impl Devices {
    /// The unit in which all capacity devices can be read, in grains.
    #[must_use]
    pub fn unit_grains(&self) -> u64 {
        let units = self.list.iter().skip(1).map(|device| device.geometry().logical_block_bytes as usize);
        (units.max().unwrap_or(0).max(SECTOR_BYTES) / GRAIN_BYTES) as u64
    }

    /// Over these devices.
    #[must_use]
    pub fn new(list: Vec<Box<dyn Device>>) -> Self {
        Self {
            list,
            bases: 0,
            read_bytes: 0,
            labels: None,
            array: None,
            lost_flushes: Vec::new(),
            is_read_only: false,
            silent_waits_max: u32::MAX,
        }
    }

    /// For devices that are only looked at: those that answer nothing in so many waits of a second are given up, as a pool's devices never are.
    #[must_use]
    pub fn with_limit(self, silent_waits_max: u32) -> Self {
        Self { silent_waits_max, ..self }
    }

    /// Over these devices, of which the first is a mirror.
    #[must_use]
    pub fn mirrored(list: Vec<Box<dyn Device>>, view: MirrorView) -> Self {
        Self { labels: Some(CapacityLabels::new(view)), ..Self::new(list) }
    }

    /// The same, where the capacity device consists of several with parity.
    #[must_use]
    pub fn with_array(self, array: ArrayView) -> Self {
        Self { array: Some(array), ..self }
    }

    /// The array that the capacity device is, where it is one.
    #[must_use]
    pub fn array(&self) -> Option<&ArrayView> {
        self.array.as_ref()
    }

    /// The devices of the pool, without bases of its disks.
    #[must_use]
    pub fn own(&self) -> &[Box<dyn Device>] {
        &self.list[..self.list.len() - self.bases]
    }

    /// Adds the base of a disk; returns its number.
    pub(crate) fn add_base(&mut self, device: Box<dyn Device>) -> usize {
        self.bases += 1;
        self.list.push(device);
        self.list.len() - 1
    }

    /// Gives up a base that is not read any more, or a device that does not answer.
    pub(crate) fn give_up_base(&mut self, number: usize) {
        if let Some(device) = self.list.get_mut(number) {
            *device = Box::new(Absent::new(device.name(), device.geometry()));
        }
    }

    /// The mirror that the fast device is, where it is one.
    #[must_use]
    pub fn mirror(&self) -> Option<&MirrorView> {
        self.labels.as_ref().map(|labels| &labels.view)
    }

    /// Replaces each device, a mirror as a whole.
    #[must_use]
    pub fn map(mut self, replace: impl FnMut(Box<dyn Device>) -> Box<dyn Device>) -> Self {
        self.list = self.list.into_iter().map(replace).collect();
        self
    }

    /// Views of the devices that consist of several.
    pub fn views(&self) -> impl Iterator<Item = &MirrorView> {
        self.mirror().into_iter().chain(self.array.iter().map(ArrayView::members))
    }

    /// Passes the time on to devices that have no clock.
    pub(crate) fn tick(&self, now_ns: u64) {
        self.views().for_each(|view| view.tick(now_ns));
    }

    /// Says to devices that consist of several whether the pool waits for no device and has looked at all that they answered.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.views().for_each(|view| view.set_idle(is_idle));
    }

    /// Flushes of labels that have failed, of which nobody has heard yet.
    pub(crate) fn take_lost_flushes(&mut self) -> Vec<(usize, IoError)> {
        std::mem::take(&mut self.lost_flushes)
    }

    /// Goes on writing the mirror's labels to the capacity devices. `flushes`: whether a device has a flush in flight. True where something was done.
    pub(crate) fn step_labels(&mut self, flushes: impl Fn(usize) -> bool) -> bool {
        let own = self.list.len() - self.bases;
        self.labels.as_mut().is_some_and(|labels| labels.step(&mut self.list[..own], flushes))
    }

    /// It is known that all devices are this pool's: those that consist of several take changes from now on, unless nothing may be written.
    pub(crate) fn begin_members(&mut self) {
        if self.is_read_only {
            return;
        }
        self.array.iter().for_each(|array| array.members().begin());
        if self.labels.is_none() {
            return;
        }
        for number in 1..self.list.len() {
            let copies = OFFSETS_BYTES.map(|at| {
                let read = self.read_good(number, at, LABEL_BYTES, |bytes| MemberLabel::decode(bytes).is_some());
                read.ok().flatten().and_then(|bytes| MemberLabel::decode(&bytes))
            });
            if let Some(labels) = &mut self.labels {
                labels.found(number, copies);
            }
        }
        self.mirror().iter().for_each(|view| view.begin());
    }

    /// Runs all requests, in parallel as far as the devices take them, and returns their completions in order.
    pub fn run(&mut self, requests: Vec<(usize, u64, Op)>) -> Vec<Completion> {
        self.set_idle(false);
        let mut results: Vec<Option<Completion>> = requests.iter().map(|_| None).collect();
        let mut queue: Vec<std::collections::VecDeque<Request>> =
            self.list.iter().map(|_| Default::default()).collect();
        let mut left = requests.len();
        for (i, (device, offset_bytes, op)) in requests.into_iter().enumerate() {
            if matches!(op, Op::Read { .. }) {
                self.read_bytes += op.len_bytes();
            }
            queue[device].push_back(Request { tag: i as u64, offset_bytes, stream: 0, op });
        }
        let mut done = Vec::new();
        let mut silent_waits = 0u32;
        while left > 0 {
            // Only requests of one kind run at a time here: a flush is alone on its device, except for one of a label.
            self.step_labels(|_| false);
            for (device, waiting) in self.list.iter_mut().zip(&mut queue) {
                while device.in_flight() < device.queue_limit() {
                    let Some(request) = waiting.pop_front() else {
                        break;
                    };
                    device.submit(request);
                }
                device.poll(&mut done);
                if done.is_empty() && device.in_flight() > 0 {
                    device.wait(WAIT_NS);
                    device.poll(&mut done);
                }
            }
            silent_waits = if done.is_empty() { silent_waits.saturating_add(1) } else { 0 };
            if silent_waits > self.silent_waits_max {
                // Their later answers would be taken for answers to other requests.
                let silent: Vec<usize> = (0..self.list.len()).filter(|&at| self.list[at].in_flight() > 0).collect();
                silent.into_iter().for_each(|device| self.give_up_base(device));
                break;
            }
            for completion in done.drain(..) {
                if self.labels.as_mut().is_some_and(|labels| labels.ended(&completion)) {
                    continue;
                }
                if let Some(slot @ None) = results.get_mut(completion.tag as usize) {
                    *slot = Some(completion);
                    left -= 1;
                }
            }
        }
        if let Some(labels) = &mut self.labels {
            self.lost_flushes.extend(labels.take_failed_flushes());
        }
        results.into_iter().enumerate().map(|(i, result)| result.unwrap_or_else(|| unanswered(i as u64))).collect()
    }

    /// Reads `len_bytes` at an offset.
    ///
    /// # Errors
    /// The device's failure.
    pub fn read(&mut self, device: usize, offset_bytes: u64, len_bytes: usize) -> Result<Buf, IoError> {
        self.read_copy(device, offset_bytes, len_bytes, 0)
    }

    /// The same, from another copy with each attempt where there are several.
    ///
    /// # Errors
    /// The device's failure.
    pub fn read_copy(
        &mut self,
        device: usize,
        offset_bytes: u64,
        len_bytes: usize,
        attempt: u8,
    ) -> Result<Buf, IoError> {
        let bufs = Vectored::One(Buf::new(len_bytes));
        let completion = self.run(vec![(device, offset_bytes, Op::Read { bufs, attempt })]).pop();
        let short = IoError { kind: IoErrorKind::Short, operation: "read", offset_bytes, os_error: 0 };
        let completion = completion.ok_or_else(|| short.clone())?;
        completion.result?;
        single(completion.bufs).ok_or(short)
    }

    /// The same for something that lies in other places, too: `Ok(Err)` where the medium cannot be read here, which says nothing of those.
    ///
    /// # Errors
    /// Any other failure of the device.
    pub(crate) fn read_one_of(
        &mut self,
        device: usize,
        offset_bytes: u64,
        len_bytes: usize,
        attempt: u8,
    ) -> Result<Result<Buf, IoError>, IoError> {
        match self.read_copy(device, offset_bytes, len_bytes, attempt) {
            Err(error) if error.kind != IoErrorKind::Medium => Err(error),
            read => Ok(read),
        }
    }

    /// How many copies the fast device has of everything.
    #[must_use]
    pub fn copies(&self) -> u8 {
        self.mirror().map_or(1, MirrorView::members)
    }

    /// In how many other ways data of the capacity device can be read.
    #[must_use]
    pub fn variants(&self) -> u8 {
        self.array.as_ref().map_or(0, ArrayView::variants)
    }

    /// In how many ways data of a device can be read: from each copy, or also computed from others.
    pub(crate) fn ways(&self, device: usize) -> u8 {
        if self.is_array(device) {
            self.variants() + 1
        } else if device == 0 {
            self.copies()
        } else {
            1
        }
    }

    /// Whether a device consists of several with parity: then it is the only capacity device, and the last of the pool's; the fast one may not be in
    /// the list yet.
    fn is_array(&self, device: usize) -> bool {
        self.array.is_some() && device + 1 == self.own().len()
    }

    /// How often data is read before it counts as damaged: in each way, and at least twice, as one transfer may go wrong.
    pub(crate) fn readings(&self, device: usize) -> u8 {
        self.ways(device).max(2)
    }

    /// Flag for reads that decide what is lost: where a copy cannot be read now, another one that is wrong must not answer for it.
    pub(crate) fn of_one_copy(&self, device: usize) -> u8 {
        if device == 0 && self.copies() > 1 { Op::ALONE } else { 0 }
    }

    /// Says that all copies are the same where it matters, as what a power cut has torn was written anew: any of them may be read from.
    pub(crate) fn settle(&self) {
        self.views().for_each(MirrorView::settle);
    }

    /// Reads data at some places, all at once (neighbours together), and what is wrong again, each for itself and in each other way. What only a later attempt found good is written to all
    /// copies of the fast device. `is_good` gets the number of the place.
    pub(crate) fn read_each_good(
        &mut self,
        places: &[Place],
        mut is_good: impl FnMut(usize, &[u8]) -> bool,
    ) -> Vec<Reading> {
        let short = |at: u64| IoError { kind: IoErrorKind::Short, operation: "read", offset_bytes: at, os_error: 0 };
        let mut found: Vec<Reading> = places.iter().map(|&(_, at, _)| Reading::Failed(short(at))).collect();
        let neighbours = Neighbours::among(places);
        let ended = self.run(neighbours.iter().map(Neighbours::read).collect());
        for (neighbours, ended) in neighbours.into_iter().zip(ended) {
            neighbours.judge(ended, places, &mut is_good, &mut found);
        }
        let mut left: Vec<usize> = (0..places.len()).filter(|&at| !matches!(found[at], Reading::Good(_))).collect();
        for attempt in 0..u8::MAX {
            left.retain(|&number| attempt < self.readings(places[number].0));
            if left.is_empty() {
                break;
            }
            let read = |&number: &usize| {
                let (device, offset_bytes, len_bytes) = places[number];
                let attempt = attempt | self.of_one_copy(device);
                (device, offset_bytes, Op::Read { bufs: Vectored::One(Buf::new(len_bytes)), attempt })
            };
            let ended = self.run(left.iter().map(read).collect());
            let mut again = Vec::new();
            for (number, Completion { result, bufs, .. }) in std::mem::take(&mut left).into_iter().zip(ended) {
                let (device, offset_bytes, _) = places[number];
                let reading = match (result, single(bufs)) {
                    (Ok(()), Some(bytes)) if is_good(number, &bytes) => Reading::Good(bytes),
                    (Ok(()), Some(bytes)) => Reading::Bad(bytes),
                    (Ok(()), None) => Reading::Failed(short(offset_bytes)),
                    (Err(error), _) => Reading::Failed(error),
                };
                if let Reading::Good(bytes) = &reading {
                    if attempt > 0 && device == 0 && self.copies() > 1 {
                        // Where this write fails, the fault is found again, or the member that fails it is left behind.
                        let _ = self.write(device, offset_bytes, bytes);
                    }
                    found[number] = reading;
                    continue;
                }
                // That it cannot be computed from others says nothing of what was read in its place.
                if attempt == 0 || matches!(reading, Reading::Failed(_)) && !self.is_array(device) {
                    found[number] = reading;
                }
                again.push(number);
            }
            left = again;
        }
        found
    }

    /// The same for one place. `None` where it can be read and is wrong.
    ///
    /// # Errors
    /// The device's failure to read it in any way.
    pub fn read_good(
        &mut self,
        device: usize,
        offset_bytes: u64,
        len_bytes: usize,
        is_good: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Buf>, IoError> {
        match self.read_each_good(&[(device, offset_bytes, len_bytes)], |_, bytes| is_good(bytes)).pop() {
            Some(Reading::Good(bytes)) => Ok(Some(bytes)),
            Some(Reading::Failed(error)) => Err(error),
            Some(Reading::Bad(_)) | None => Ok(None),
        }
    }

    /// Writes bytes at an offset (padded by the caller to the logical block).
    ///
    /// # Errors
    /// The device's failure.
    pub fn write(&mut self, device: usize, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
        let bufs = Vectored::One(Buf::copy_of(bytes).freeze());
        self.finish(vec![(device, offset_bytes, Op::Write { bufs, fua: false })])
    }

    /// Flushes one device.
    ///
    /// # Errors
    /// The device's failure.
    pub fn flush(&mut self, device: usize) -> Result<(), IoError> {
        self.finish(vec![(device, 0, Op::Flush)])?;
        // The failed flush of a label was the only report of what was lost there.
        match self.lost_flushes.iter().position(|(lost, _)| *lost == device) {
            Some(at) => Err(self.lost_flushes.swap_remove(at).1),
            None => Ok(()),
        }
    }

    fn finish(&mut self, requests: Vec<(usize, u64, Op)>) -> Result<(), IoError> {
        self.run(requests).into_iter().try_for_each(|completion| completion.result)
    }
}
