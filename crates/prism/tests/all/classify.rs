//! The order of decisions: tag, rules, contents, behaviour; and what forged or hostile bytes can achieve.

use crate::xfs::{UUID, superblock};
use forebay_block::{ClassId, DiskId, checksum::crc32c};
use forebay_prism::evidence::{SYSTEMS_LIMIT, System};
use forebay_prism::{ClassSpec, ClassTable, Direction, HostFacts, Intent, Lifetime, Need, Place, Prism, Run};
use proptest::prelude::*;

const BLOCK: usize = 4096;
const DISK_BYTES: u64 = 1 << 30;

const LOG_START: u64 = (2 * 16_384 + 1000) * 4096;
const LOG_END: u64 = LOG_START + 2048 * 4096;

/// A free-space btree block at `at` bytes, valid in every part.
fn btree_block(at: u64) -> Vec<u8> {
    let mut block = vec![0u8; BLOCK];
    block[..4].copy_from_slice(b"AB3B");
    block[16..24].copy_from_slice(&(at / 512).to_be_bytes());
    block[32..48].copy_from_slice(&UUID);
    let sum = crc32c(&block);
    block[52..56].copy_from_slice(&sum.to_le_bytes());
    block
}

fn write(offset_bytes: u64, data: &[u8]) -> Intent<'_> {
    Intent {
        disk: DiskId(1),
        disk_size_bytes: DISK_BYTES,
        offset_bytes,
        direction: Direction::Write,
        len_bytes: data.len() as u64,
        request_bytes: data.len() as u64,
        rest_bytes: 0,
        data,
        export: 0,
        tag: None,
        host: HostFacts::default(),
    }
}

fn runs(prism: &mut Prism, intent: &Intent<'_>) -> Vec<(String, u32)> {
    let mut runs: Vec<Run> = Vec::new();
    prism.classify(intent, &mut runs);
    runs.iter().map(|run| (prism.table().get(run.class).unwrap().name.clone(), run.blocks)).collect()
}

fn class(prism: &mut Prism, offset: u64, data: &[u8]) -> String {
    let mut runs = runs(prism, &write(offset, data));
    assert_eq!(runs.len(), 1);
    runs.remove(0).0
}

fn prism_with_xfs() -> Prism {
    let mut prism = Prism::new(ClassTable::default());
    assert_eq!(class(&mut prism, 0, &superblock()), "metadata");
    assert_eq!(prism.known_systems()[0].uuid, UUID);
    prism
}

#[test]
fn a_request_is_split_where_the_class_changes() {
    let mut prism = prism_with_xfs();
    let around_log = vec![1u8; 4 * BLOCK];
    assert_eq!(runs(&mut prism, &write(LOG_START - 2 * 4096, &around_log)), [("cold".into(), 2), ("log".into(), 2)]);
    assert_eq!(runs(&mut prism, &write(LOG_END - 4096, &around_log)), [("log".into(), 1), ("cold".into(), 3)]);
    assert_eq!(runs(&mut prism, &write(1 << 20, &[])), []);
}

#[test]
fn metadata_must_prove_itself() {
    let at = 50 << 20;
    let good = btree_block(at);
    let mut prism = prism_with_xfs();
    assert_eq!(class(&mut prism, at, &good), "metadata");
    assert_eq!(class(&mut prism, at + 4096, &good), "cold", "a copy elsewhere, as in a file that holds an image");
    let mut other = good.clone();
    other[40] ^= 1;
    assert_eq!(class(&mut prism, at, &other), "cold", "another file system's UUID");
    let mut torn = good.clone();
    torn[3000] ^= 1;
    assert_eq!(class(&mut prism, at, &torn), "cold", "a wrong checksum");
    assert_eq!(class(&mut Prism::new(ClassTable::default()), at, &good), "cold", "no superblock known");
}

#[test]
fn a_superblock_inside_a_file_plants_nothing() {
    let mut prism = prism_with_xfs();
    for block in 1..2000u64 {
        class(&mut prism, block * 4096, &superblock());
    }
    assert_eq!(prism.known_systems().len(), 1);
    let mut prism = Prism::new(ClassTable::default());
    class(&mut prism, 1 << 20, &superblock());
    assert_eq!(prism.known_systems(), []);
}

#[test]
fn overwriting_or_discarding_the_superblock_forgets_the_file_system() {
    let mut prism = prism_with_xfs();
    prism.observe_discard(DiskId(1), 4096, DISK_BYTES - 4096);
    assert_eq!(class(&mut prism, LOG_START, &[1; BLOCK]), "log", "a discard behind the superblock is no end");
    prism.observe_discard(DiskId(1), 0, 4096);
    assert_eq!(class(&mut prism, LOG_START, &[1; BLOCK]), "cold");
    let mut prism = prism_with_xfs();
    class(&mut prism, 0, &[1; BLOCK]);
    assert_eq!(prism.known_systems(), []);
}

#[test]
fn a_superblock_that_claims_too_much_is_not_believed() {
    let small = Intent { disk_size_bytes: 255 << 20, ..write(0, &[]) };
    let block = superblock();
    let mut prism = Prism::new(ClassTable::default());
    runs(&mut prism, &Intent { len_bytes: 4096, data: &block, ..small });
    assert_eq!(prism.known_systems(), []);
}

#[test]
fn tag_before_rule_before_contents_before_behaviour() {
    let rule = |name: &str, rule: &str| ClassSpec { rules: vec![rule.into()], ..ClassSpec::new(name, Place::Stage) };
    let table = ClassTable::from_configured(&[
        rule("jrnl", "disk:db & fs.journal & export:main"),
        rule("tail", "offset:800MiB..900MiB"),
    ])
    .unwrap();
    let mut prism = Prism::new(table);
    class(&mut prism, 0, &superblock());
    let data = [1; BLOCK];
    assert_eq!(class(&mut prism, LOG_START, &data), "log", "the rule does not hold: names are not given");
    prism.set_disks(&[(DiskId(1), "db".into())]);
    prism.set_exports(&[(0, "main".into())]);
    assert_eq!(class(&mut prism, LOG_START, &data), "jrnl");
    assert_eq!(runs(&mut prism, &Intent { tag: Some(ClassId(4)), ..write(LOG_START, &data) }), [("hot".into(), 1)]);
    // A rule by address splits a request.
    let long = vec![1; 4 * BLOCK];
    assert_eq!(runs(&mut prism, &write((800 << 20) - 8192, &long)), [("cold".into(), 2), ("tail".into(), 2)]);
    // The classifier learns from tagged writes all the same.
    let zeros = [0; BLOCK];
    runs(&mut prism, &Intent { tag: Some(ClassId(4)), ..write(0, &zeros) });
    assert_eq!(prism.known_systems(), []);
}

#[test]
fn a_policy_changed_live_takes_effect() {
    let mut prism = prism_with_xfs();
    let change = forebay_prism::ClassChange { rules: Some(vec!["fs.journal".into()]), ..Default::default() };
    prism.table_mut().set("temp", change).unwrap();
    assert_eq!(class(&mut prism, LOG_START, &[1; BLOCK]), "temp");
    assert_eq!(prism.table().unknown(|need| need == Need::Contents), []);
}

#[test]
fn sequential_runs_reach_rules() {
    let bulk = ClassSpec { rules: vec!["sequential>=1MiB".into()], ..ClassSpec::new("bulk", Place::Capacity) };
    let mut prism = Prism::new(ClassTable::from_configured(&[bulk]).unwrap());
    let data = vec![1u8; 64 * BLOCK];
    let classes: Vec<String> =
        (0..6u64).map(|i| class(&mut prism, (100 << 20) + i * data.len() as u64, &data)).collect();
    assert_eq!(classes, ["cold", "cold", "cold", "bulk", "bulk", "bulk"]);
    assert_eq!(class(&mut prism, 200 << 20, &data), "cold");
}

#[test]
fn recycled_logs_and_overwritten_data_are_noticed_without_any_file_system() {
    let mut prism = Prism::new(ClassTable::default());
    let data = [9; BLOCK];
    let mut last = String::new();
    for _ in 0..6 {
        for block in 0..256u64 {
            last = class(&mut prism, (300 << 20) + block * 4096, &data);
        }
    }
    assert_eq!(last, "log");
    for i in 0..400u64 {
        last = class(&mut prism, (400 << 20) + (i * 5 % 16) * 4096, &data);
    }
    assert_eq!(last, "hot");
}

#[test]
fn equal_inputs_give_equal_outputs() {
    let play = || {
        let mut prism = prism_with_xfs();
        let mut all = Vec::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let data = vec![seed as u8; BLOCK * (1 + (seed >> 60) as usize)];
            all.extend(runs(&mut prism, &write((seed >> 20) % 65_000 * 4096, &data)));
        }
        (all, prism.save())
    };
    assert_eq!(play(), play());
}

#[test]
fn file_systems_are_bounded_and_a_crowd_does_not_push_out_a_neighbour() {
    let mut prism = prism_with_xfs();
    // Another disk with 128 partitions, each with a superblock.
    let partition_bytes = 512u64 << 20;
    let size = 130 * partition_bytes;
    let other = |offset_bytes, data| Intent { disk: DiskId(2), disk_size_bytes: size, ..write(offset_bytes, data) };
    let mut table = vec![0u8; 9 * BLOCK];
    table[450] = 0xee;
    table[510..512].copy_from_slice(&[0x55, 0xaa]);
    table[512..520].copy_from_slice(b"EFI PART");
    table[512 + 12] = 92;
    table[512 + 72] = 2;
    table[512 + 80] = 128;
    table[512 + 84] = 128;
    let sum = crc32_ieee(&table[512..512 + 92]);
    table[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
    for i in 0..128u64 {
        let entry = &mut table[1024 + i as usize * 128..][..128];
        entry[0] = 1;
        entry[32..40].copy_from_slice(&((i + 1) * partition_bytes / 512).to_le_bytes());
        entry[40..48].copy_from_slice(&((i + 2) * partition_bytes / 512 - 1).to_le_bytes());
    }
    runs(&mut prism, &other(0, &table));
    let block = superblock();
    for i in 0..128u64 {
        runs(&mut prism, &other((i + 1) * partition_bytes, &block));
    }
    let known = prism.known_systems();
    assert_eq!(known.len(), SYSTEMS_LIMIT);
    assert_eq!((known[0].disk, known[0].system), (DiskId(1), System::Xfs));
    assert_eq!(known[63].offset_bytes, 128 * partition_bytes, "the newest are kept");
    assert!(prism.save().len() <= 64 << 10);
    let mut restored = Prism::new(ClassTable::default());
    restored.restore(&prism.save());
    assert_eq!(restored.known_systems(), known);
}

fn crc32_ieee(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Corrects the checksum, so that damage reaches the parser.
fn seal(mut body: Vec<u8>) -> Vec<u8> {
    let sum = crc32c(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

/// Superblocks of all kinds, barely plausible, for mutation.
fn superblocks() -> Vec<Vec<u8>> {
    let mut ext4 = vec![0u8; BLOCK];
    let sb = &mut ext4[1024..];
    for (at, value) in [
        (0, 8192u32),
        (4, 65_536),
        (0x18, 2),
        (0x20, 32_768),
        (0x28, 4096),
        (0x4c, 1),
        (0x5c, 4),
        (0x60, 0x2c0),
        (0x64, 1),
    ] {
        sb[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    sb[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    sb[0x58..0x5a].copy_from_slice(&256u16.to_le_bytes());
    sb[0xfd] = 1;
    sb[0xfe] = 64;
    sb[0x10c..0x118].copy_from_slice(&[0x0a, 0xf3, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    sb[0x118..0x124].copy_from_slice(&[0, 0, 0, 0, 0, 4, 0, 0, 0, 0x80, 0, 0]);
    sb[0x174] = 4;
    let mut mbr = vec![0u8; BLOCK];
    mbr[450] = 0x83;
    mbr[454..458].copy_from_slice(&2048u32.to_le_bytes());
    mbr[458..462].copy_from_slice(&100_000u32.to_le_bytes());
    mbr[510..512].copy_from_slice(&[0x55, 0xaa]);
    vec![superblock(), ext4, mbr]
}

#[test]
fn the_mutation_seeds_are_recognised() {
    let known: Vec<usize> = superblocks()
        .iter()
        .map(|block| {
            let mut prism = Prism::new(ClassTable::default());
            runs(&mut prism, &write(0, block));
            prism.known_systems().len() + usize::from(prism.save().len() > 20)
        })
        .collect();
    assert_eq!(known, [2, 2, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn hostile_superblocks_do_no_harm(
        which in 0..3usize,
        changes in prop::collection::vec((0..1100usize, any::<u8>()), 1..8),
        probes in prop::collection::vec((0..DISK_BYTES / 4096, any::<u8>()), 20),
    ) {
        let mut block = superblocks()[which].clone();
        for (at, value) in changes {
            let base = if which == 1 { 1024 } else { 0 };
            block[(base + at) % BLOCK] = value;
        }
        if which == 0 {
            block[224..228].fill(0);
            let sum = crc32c(&block[..512]);
            block[224..228].copy_from_slice(&sum.to_le_bytes());
        }
        let mut prism = Prism::new(ClassTable::default());
        runs(&mut prism, &write(0, &block));
        for known in prism.known_systems() {
            prop_assert!(known.offset_bytes + known.len_bytes <= DISK_BYTES);
        }
        for (at, fill) in probes {
            let data = vec![fill; 3 * BLOCK];
            let blocks: u32 = runs(&mut prism, &write(at * 4096, &data)).iter().map(|run| run.1).sum();
            prop_assert_eq!(blocks, 3);
        }
        let saved = prism.save();
        let mut restored = Prism::new(ClassTable::default());
        restored.restore(&saved);
        prop_assert_eq!(restored.known_systems(), prism.known_systems());
    }

    #[test]
    fn hostile_saved_bytes_do_no_harm(
        which in 0..3usize, at in any::<prop::sample::Index>(), value in any::<u8>(), cut in 0..40usize,
        probes in prop::collection::vec(0..DISK_BYTES / 4096, 10),
    ) {
        let mut prism = Prism::new(ClassTable::default());
        runs(&mut prism, &write(0, &superblocks()[which]));
        let mut body = prism.save();
        body.truncate(body.len() - 4);
        let at = at.index(body.len());
        body[at] = value;
        body.truncate(body.len() - cut.saturating_sub(20).min(body.len()));
        let mut restored = Prism::new(ClassTable::default());
        restored.restore(&seal(body));
        for at in probes {
            runs(&mut restored, &write(at * 4096, &[1; BLOCK]));
        }
        let _ = restored.save();
    }

    #[test]
    fn damaged_saved_bytes_are_ignored(at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let mut bytes = prism_with_xfs().save();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let mut prism = Prism::new(ClassTable::default());
        prism.restore(&bytes);
        prop_assert_eq!(prism.known_systems(), []);
    }

    #[test]
    fn random_data_with_forged_magics_stays_default(seed in any::<u64>(), magic in 0..12usize, at in 20u64..30_000) {
        let mut prism = prism_with_xfs();
        let mut state = seed;
        let mut data = vec![0u8; BLOCK];
        for byte in &mut data {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        let magics: [&[u8]; 12] = [b"XFSB", b"XAGF", b"XAGI", b"XAFL", b"IN\0\0\x03", b"XDB3", b"AB3B", b"BMA3", b"XSLM", b"DQ\x01", b"XARM", b"R3FC"];
        data[..magics[magic].len()].copy_from_slice(magics[magic]);
        // Even with the correct UUID at each place where a structure may have it.
        for place in [8, 16, 24, 32, 40, 64, 120, 160, 296] {
            data[place..place + 16].copy_from_slice(&UUID);
        }
        prop_assert_eq!(class(&mut prism, at * 4096, &data), "cold");
    }
}

#[test]
fn what_the_kernel_knows_goes_before_behaviour() {
    let mut prism = Prism::new(ClassTable::default());
    let data = [1; BLOCK];
    let with = |host| Intent { host, ..write(100 << 20, &data) };
    let meta = HostFacts { meta: Some(true), ..HostFacts::default() };
    assert_eq!(runs(&mut prism, &with(meta)), [("metadata".into(), 1)]);
    let swap = HostFacts { meta: Some(false), swap: Some(true), ..HostFacts::default() };
    assert_eq!(runs(&mut prism, &with(swap)), [("temp".into(), 1)]);
    let short = HostFacts { lifetime: Some(Lifetime::Short), ..HostFacts::default() };
    assert_eq!(runs(&mut prism, &with(short)), [("temp".into(), 1)]);
    let extreme = HostFacts { lifetime: Some(Lifetime::Extreme), ..HostFacts::default() };
    assert_eq!(runs(&mut prism, &with(extreme)), [("cold".into(), 1)]);
}

/// XFS marks writes to its log as metadata: the contents show that they are log.
#[test]
fn a_journal_that_is_marked_as_metadata_is_a_log() {
    let mut prism = Prism::new(ClassTable::default());
    runs(&mut prism, &write(0, &superblock()));
    let data = [1; BLOCK];
    let host = HostFacts { meta: Some(true), ..HostFacts::default() };
    assert_eq!(runs(&mut prism, &Intent { host, ..write(LOG_START, &data) }), [("log".into(), 1)]);
}

/// A caller that splits requests passes the length of the whole request.
#[test]
fn regression_rules_see_the_size_of_the_whole_request() {
    let rule = ClassSpec { rules: vec!["request_size>=128KiB".into()], ..ClassSpec::new("big", Place::Capacity) };
    let mut prism = Prism::new(ClassTable::from_configured(&[rule]).unwrap());
    let data = [1; 2 * BLOCK];
    let part = Intent { request_bytes: 128 << 10, ..write(0, &data) };
    assert_eq!(runs(&mut prism, &part), [("big".into(), 2)]);
    assert_eq!(runs(&mut prism, &write(0, &data)), [("cold".into(), 2)]);
}

/// The first part of a request longer than a rule requires was judged as if the request ended there.
#[test]
fn regression_rules_see_a_run_up_to_the_end_of_the_whole_request() {
    let rule = ClassSpec { rules: vec!["sequential>=128KiB".into()], ..ClassSpec::new("run", Place::Capacity) };
    let data = [1; 2 * BLOCK];
    for (rest_bytes, class) in [(120 << 10, "run"), (116 << 10, "cold")] {
        let mut prism = Prism::new(ClassTable::from_configured(std::slice::from_ref(&rule)).unwrap());
        let part = Intent { request_bytes: 8192 + rest_bytes, rest_bytes, ..write(0, &data) };
        assert_eq!(runs(&mut prism, &part), [(class.into(), 2)]);
    }
}

/// A trace has no contents: lengths alone must suffice.
#[test]
fn requests_without_contents_are_classified() {
    let mut prism = Prism::new(ClassTable::default());
    let intent = Intent { len_bytes: 3 * BLOCK as u64, ..write(0, &[]) };
    assert_eq!(runs(&mut prism, &intent), [("cold".into(), 3)]);
}

/// Fields that mean nothing in an external journal were saved unchanged, and made everything that was saved
/// unreadable.
#[test]
fn regression_an_external_journal_with_odd_fields_can_be_saved() {
    let mut block = superblocks()[1].clone();
    // First data block 2; incompatible features: external journal, and one more.
    (block[1024 + 20], block[1024 + 96]) = (2, 40);
    let mut prism = Prism::new(ClassTable::default());
    runs(&mut prism, &write(0, &block));
    let mut restored = Prism::new(ClassTable::default());
    restored.restore(&prism.save());
    assert_eq!(restored.known_systems(), prism.known_systems());
    assert!(!restored.known_systems().is_empty());
}

#[test]
fn a_map_that_lags_behind_does_not_outvote_contents() {
    let spec = ClassSpec { rules: vec!["path:/db/*".to_owned()], ..ClassSpec::new("tables", Place::Fast) };
    let mut prism = Prism::new(ClassTable::from_configured(&[spec]).unwrap());
    class(&mut prism, 0, &superblock());
    let btree = btree_block(8 << 20);
    for (is_by_map, expected) in [(true, "metadata"), (false, "tables")] {
        let host = HostFacts { path: Some("/db/1.sst"), is_by_map, ..HostFacts::default() };
        let intent = Intent { host, ..write(8 << 20, &btree) };
        assert_eq!(runs(&mut prism, &intent), [(expected.to_owned(), 1)], "by the map alone: {is_by_map}");
        let data = vec![7; BLOCK];
        let intent = Intent { host, ..write(9 << 20, &data) };
        assert_eq!(runs(&mut prism, &intent), [("tables".to_owned(), 1)], "plain data: {is_by_map}");
    }
}
