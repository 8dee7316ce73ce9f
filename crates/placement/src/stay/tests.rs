use super::*;

/// Plays a stream on a tier that evicts what is due first; returns the share of the writes that died there.
struct Tier {
    stays: Stays,
    room: usize,
    due: BTreeMap<(u64, u64), ()>,
    staged: BTreeMap<u64, u64>,
    now: u64,
    saved: u64,
    counted: u64,
    early: u64,
}

impl Tier {
    fn new(room: usize, disk_blocks: u64) -> Self {
        let stays = Stays::new(room as u64, disk_blocks, 4 << 20);
        let (due, staged) = (BTreeMap::new(), BTreeMap::new());
        Self { stays, room, due, staged, now: 0, saved: 0, counted: 0, early: 0 }
    }

    fn leave(&mut self, block: u64) -> bool {
        self.staged.remove(&block).is_some_and(|due| self.due.remove(&(due, block)).is_some())
    }

    fn write(&mut self, block: u64, blocks: u64, counts: bool) {
        let group = self.stays.group((0, 0), 1, &(block..block + blocks), self.now);
        let stay = self.stays.stay(group);
        for block in block..block + blocks {
            let saves = self.leave(block);
            if counts {
                self.saved += u64::from(saves);
                self.counted += 1;
            }
            if let Stay::Blocks(stay) | Stay::Unknown(stay) = stay {
                self.staged.insert(block, self.now + stay);
                self.due.insert((self.now + stay, block), ());
            }
            self.now += 1;
        }
        self.stays.written(1, block..block + blocks, group, self.now);
        self.stays.requested(blocks);
        while self.staged.len() > self.room {
            let Some(((due, block), ())) = self.due.pop_first() else { break };
            self.early += u64::from(due > self.now);
            self.staged.remove(&block);
        }
        if self.stays.is_due(self.now) {
            self.stays.plan(self.now, self.room as u64, std::mem::take(&mut self.early));
        }
    }
}

#[test]
fn of_a_turn_longer_than_the_tier_a_part_is_kept() {
    // An order by age keeps nothing of it: every block has left before it is written again.
    let mut tier = Tier::new(1000, 1 << 16);
    for round in 0..60 {
        for block in (0..2000).step_by(4) {
            tier.write(block, 4, round >= 30);
        }
    }
    let saved = tier.saved as f64 / tier.counted as f64;
    assert!((0.40..=0.50).contains(&saved), "half at best: {saved}");
}

#[test]
fn data_in_regions_of_short_lives_stays_and_a_scan_passes_by() {
    // Nine of ten writes go over the whole disk in order, one to a small log.
    let mut tier = Tier::new(1000, 1 << 20);
    let (mut log, mut scan) = (0u64, 0u64);
    let (mut saved, mut written) = (0, 0);
    for step in 0..40_000u64 {
        if step % 10 == 0 {
            tier.write((1 << 19) + log % 500, 1, false);
            log += 1;
        } else {
            let before = tier.staged.len();
            tier.write(scan % 100_000, 1, false);
            scan += 1;
            saved += usize::from(tier.staged.len() <= before);
            written += 1;
        }
        if step == 30_000 {
            (saved, written) = (0, 0);
        }
    }
    let look = tier.stays.look();
    let log = look.iter().find(|look| look.share.long_blocks > 0).expect("a group that stays");
    assert!(log.share.short_blocks >= 5000 && log.saved_part > 0.9, "{log:?}");
    assert!(log.median_life_blocks.is_some_and(|life| (4500..6500).contains(&life)), "{log:?}");
    let staged_log = tier.staged.keys().filter(|block| **block >= 1 << 19).count();
    assert!(staged_log >= 490, "the log is there: {staged_log} of 500");
    assert!(saved * 20 > written * 19, "the scan passes by: {saved} of {written}");
}

#[test]
fn what_is_written_after_reads_of_old_data_is_a_group_of_its_own() {
    let mut stays = Stays::new(1000, 1 << 20, 4 << 20);
    stays.written(1, 0..64, 0, 0);
    stays.written(1, 5000..5064, 0, 90_000);
    let before = stays.group((0, 0), 1, &(700_000..700_016), 90_100);
    stays.read(1, &(0..16), 90_100);
    let after_old = stays.group((0, 0), 1, &(700_000..700_016), 90_100);
    for _ in 0..2 {
        stays.read(1, &(5000..5016), 90_100);
    }
    let after_young = stays.group((0, 0), 1, &(700_000..700_016), 90_100);
    assert!(before != after_old && after_old != after_young && after_young != before);
    stays.read(1, &(0..15), 90_100);
    assert_eq!(stays.group((0, 0), 1, &(700_000..700_016), 90_100), after_young, "small reads say nothing");
    for at in 0..3 {
        stays.written(1, 800_000 + 16 * at..800_016 + 16 * at, after_young, 90_100);
        stays.requested(16);
    }
    assert_eq!(stays.group((0, 0), 1, &(700_000..700_016), 90_100), before, "it is long ago");
}

#[test]
fn where_staging_has_a_price_what_saves_little_passes_by_though_there_is_room() {
    let mut stays = Stays::new(10_000, 1 << 20, 4 << 20);
    let mut now = 0;
    let mut last = Stay::Blocks(0);
    for round in 0..3000u64 {
        // One of five is overwritten soon, the others never.
        for at in 0..5 {
            let block = if at == 0 { round % 64 } else { 64 + round * 4 + at };
            let group = stays.group((0, 0), 1, &(block..block + 1), now);
            last = stays.stay(group);
            now += 1;
            stays.written(1, block..block + 1, group, now);
        }
        if round == 1500 {
            stays.plan(now, 10_000, 0);
            let group = stays.group((0, 0), 1, &(64 + round * 4..65 + round * 4), now);
            assert_ne!(stays.stay(group), Stay::PassBy, "there is room");
            stays.set_price(0.5);
        }
        if stays.is_due(now) {
            stays.plan(now, 10_000, 0);
        }
    }
    assert_eq!(last, Stay::PassBy);
    let group = stays.group((0, 0), 1, &(3..4), now);
    assert!(matches!(stays.stay(group), Stay::Blocks(blocks) if blocks > 300), "{:?}", stays.look());
}

#[test]
fn groups_and_samples_are_bounded_by_memory() {
    let mut stays = Stays::new(1000, 1 << 20, 100_000);
    for class in 0..200u8 {
        let group = stays.group((class, 0), 1, &(0..1), 0);
        stays.written(1, u64::from(class) * 1000..u64::from(class) * 1000 + 1000, group, u64::from(class) * 1000);
    }
    assert!(stays.groups.len() <= 64 && stays.sample.len() <= 600, "{} {}", stays.groups.len(), stays.sample.len());
    assert_eq!(stays.group((250, 0), 1, &(0..1), 0), 0, "a class without room for a group of its own");
}
