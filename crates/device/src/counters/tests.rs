//! An artificial /sys with a partition, a mapped device and an array; differences of artificial readings.

use super::health::tests::known_page as health_page;
use super::layers::LayerError;
use super::ocp::tests::known_page as media_page;
use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const STAT: &str = "1 2 3 4 5 6 7 8 0 10 11 12 13 14 15 16 17\n";

/// sysfs as the kernel arranges it: devices in a tree, `dev/block` and `slaves` as links into it.
struct FakeSys {
    root: TempDir,
}

impl FakeSys {
    fn new() -> Self {
        let root = TempDir::new().expect("a directory");
        fs::create_dir_all(root.path().join("dev/block")).expect("made");
        Self { root }
    }

    fn places(&self) -> Places {
        Places {
            sys: self.root.path().into(),
            dev: self.root.path().join("nodes"),
            mountinfo: "/proc/self/mountinfo".into(),
        }
    }

    /// Creates a device at `place` below `devices`.
    fn device(&self, place: &str, number: &str, files: &[(&str, &str)]) {
        let directory = self.root.path().join("devices").join(place);
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("dev"), format!("{number}\n")).expect("written");
        for (name, text) in files {
            let file = directory.join(name);
            fs::create_dir_all(file.parent().expect("in a directory")).expect("made");
            fs::write(file, text).expect("written");
        }
        symlink(&directory, self.root.path().join("dev/block").join(number)).expect("linked");
    }

    fn slave(&self, above: &str, below: &str) {
        let devices = self.root.path().join("devices");
        let slaves = devices.join(above).join("slaves");
        fs::create_dir_all(&slaves).expect("made");
        symlink(devices.join(below), slaves.join(Path::new(below).file_name().expect("a name"))).expect("linked");
    }

    fn bus(&self, place: &str, bus: &str) {
        let subsystem = self.root.path().join("class").join(bus);
        fs::create_dir_all(&subsystem).expect("made");
        let device = self.root.path().join("devices").join(place).join("device");
        fs::create_dir_all(&device).expect("made");
        symlink(subsystem, device.join("subsystem")).expect("linked");
    }
}

fn names(layers: &[Layer]) -> Vec<&str> {
    layers.iter().map(|layer| layer.name.as_str()).collect()
}

#[test]
fn the_way_leads_through_mapping_and_partition_to_the_drive() {
    let sys = FakeSys::new();
    sys.device("pci/nvme0/nvme0n1", "259:0", &[("stat", STAT), ("diskseq", "9\n")]);
    sys.device("pci/nvme0/nvme0n1/nvme0n1p3", "259:3", &[("stat", "0 0 0\n"), ("partition", "3\n")]);
    sys.device("virtual/block/dm-0", "253:0", &[("stat", STAT)]);
    sys.slave("virtual/block/dm-0", "pci/nvme0/nvme0n1/nvme0n1p3");
    let (layers, ended) = sys.places().descend((253, 0));
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(names(&layers), ["dm-0", "nvme0n1p3", "nvme0n1"]);
    assert_eq!(layers[0].stat, KernelStat::parse(STAT));
    assert_eq!(layers[1].stat, None);
    assert_eq!((layers[2].major, layers[2].minor, layers[2].sequence), (259, 0, Some(9)));
}

#[test]
fn an_array_is_not_followed_and_says_so() {
    let sys = FakeSys::new();
    sys.device("a/sda", "8:0", &[("stat", STAT)]);
    sys.device("a/sdb", "8:16", &[("stat", STAT)]);
    sys.device("virtual/md0", "9:0", &[("stat", STAT)]);
    sys.slave("virtual/md0", "a/sda");
    sys.slave("virtual/md0", "a/sdb");
    let (layers, ended) = sys.places().descend((9, 0));
    assert_eq!(names(&layers), ["md0"]);
    assert_eq!(
        ended.expect("ends there").to_string(),
        "md0 is made of several devices (sda, sdb); ask for each of them apart"
    );
}

#[test]
fn counting_that_is_switched_off_is_seen() {
    let sys = FakeSys::new();
    sys.device("a/nvme0n1", "259:0", &[("stat", STAT), ("queue/iostats", "0\n")]);
    sys.device("a/nvme0n1/nvme0n1p1", "259:1", &[("stat", STAT), ("partition", "1\n")]);
    sys.device("a/sda", "8:0", &[("stat", STAT), ("queue/iostats", "1\n")]);
    let off =
        |number| sys.places().descend(number).0.iter().map(|one| sys.places().counts_not(one)).collect::<Vec<_>>();
    assert_eq!(off((259, 1)), [true, true]);
    assert_eq!(off((8, 0)), [false]);
}

#[test]
fn a_btrfs_of_several_devices_is_known() {
    let sys = FakeSys::new();
    let devices = sys.root.path().join("fs/btrfs/0123-4567/devices");
    fs::create_dir_all(&devices).expect("made");
    fs::create_dir_all(sys.root.path().join("fs/btrfs/features")).expect("made");
    for name in ["sdb", "sda"] {
        fs::write(devices.join(name), "").expect("written");
    }
    assert_eq!(sys.places().btrfs_parts("sda"), ["sda", "sdb"]);
    assert!(sys.places().btrfs_parts("sdc").is_empty());
}

#[test]
fn devices_that_lie_on_themselves_end() {
    let sys = FakeSys::new();
    sys.device("virtual/dm-0", "253:0", &[("stat", STAT)]);
    sys.slave("virtual/dm-0", "virtual/dm-0");
    let (layers, ended) = sys.places().descend((253, 0));
    assert_eq!(layers.len(), 16);
    assert!(matches!(ended, Some(LayerError::TooDeep)));
}

#[test]
fn what_is_missing_or_broken_is_said() {
    let sys = FakeSys::new();
    let (layers, ended) = sys.places().descend((1, 2));
    assert!(layers.is_empty() && matches!(ended, Some(LayerError::Read { .. })));
    sys.device("pci/nvme0n1", "259:0", &[]);
    sys.device("pci/nvme0n1/nvme0n1p1", "259:1", &[("partition", "1\n")]);
    fs::write(sys.root.path().join("devices/pci/nvme0n1/dev"), "nonsense").expect("written");
    let (layers, ended) = sys.places().descend((259, 1));
    assert_eq!(names(&layers), ["nvme0n1p1"]);
    assert!(matches!(ended, Some(LayerError::NoNumber { .. })));
}

#[test]
fn the_bus_tells_what_to_ask() {
    let sys = FakeSys::new();
    let drive = |place: &str, number: &str, minor: u32, bus: &str| {
        sys.device(place, number, &[("stat", STAT)]);
        sys.bus(place, bus);
        let (layers, _) = sys.places().descend((8, minor));
        sys.places().bus(&layers[0])
    };
    assert_eq!(drive("a/sda", "8:0", 0, "scsi").expect("known"), Bus::Scsi("sda".into()));
    assert_eq!(
        drive("a/vda", "8:1", 1, "virtio").expect("known"),
        Bus::Other("vda".into(), "a device of the bus virtio".into())
    );
    // A disk of libata is queried through its device file, which does not exist here.
    let vendor = |place: &str, text: &str| {
        let folder = sys.root.path().join("devices").join(place).join("device");
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("vendor"), text).expect("written");
    };
    vendor("a/sdb", "ATA     \n");
    assert!(drive("a/sdb", "8:4", 4, "scsi").is_err());
    vendor("a/sdc", "SEAGATE \n");
    assert_eq!(drive("a/sdc", "8:5", 5, "scsi").expect("known"), Bus::Scsi("sdc".into()));
    // Without a device file the drive is not queried.
    assert!(drive("a/nvme0n1", "8:2", 2, "nvme").is_err());
    // With the device file of another device it is not queried either.
    fs::create_dir(sys.root.path().join("nodes")).expect("made");
    symlink("/dev/null", sys.root.path().join("nodes/nvme1n1")).expect("linked");
    assert!(matches!(drive("a/nvme1n1", "8:3", 3, "nvme"), Err(LayerError::OtherKind { .. })));
}

#[test]
fn reading_never_fails_as_a_whole() {
    let missing = Counters::read(Path::new("/nonexistent/file"));
    assert!(missing.layers().is_empty());
    assert_eq!(missing.left_out().len(), 3);
    assert!(missing.left_out()[0].to_string().contains("/nonexistent/file"), "{}", missing.left_out()[0]);
    let nowhere = Counters::read(Path::new("/proc/self/status"));
    assert!(nowhere.left_out()[1].reason.contains("proc"), "{}", nowhere.left_out()[1]);
    let character = Counters::read(Path::new("/dev/null"));
    assert!(character.left_out()[0].reason.contains("neither a block device nor a file"));
    // On any machine a file has either a device, or a reason why none was found.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let real = Counters::read(file.path());
    assert!(!real.layers().is_empty() || real.left_out().iter().any(|left| left.source == Source::Kernel));
    let difference = Difference::between(&real, &real.read_again());
    assert_eq!(real.layers().is_empty(), difference.values().iter().all(|(_, before, _)| before.is_none()));
}

fn reading(stats: &[&str], health: Option<Health>, media: Option<Media>) -> Counters {
    let layers = stats.iter().enumerate().map(|(index, stat)| Layer {
        name: format!("nvme0n1p{index}"),
        major: 259,
        minor: index as u32,
        sequence: None,
        stat: KernelStat::parse(stat),
    });
    Counters { path: "/x".into(), layers: layers.collect(), health, media, left_out: Vec::new(), media_refused: false }
}

#[test]
fn differences_are_in_the_units_they_say() {
    let one = Health::parse(&health_page());
    let two = Health {
        data_units_read: one.data_units_read + 3,
        temperature_kelvin: one.temperature_kelvin - 5,
        percentage_used_percent: one.percentage_used_percent + 1,
        ..one
    };
    let medium = Media::parse(&media_page()).expect("the GUID is right");
    let written = Media { written_bytes: medium.written_bytes + 4096, ..medium };
    let before = reading(&["10 0 20 4294967290 0 0 0 0 0 0 0", STAT], Some(one), Some(medium));
    let after = reading(&["15 0 60 4 0 0 0 0 2 0 0", STAT], Some(two), Some(written));
    let difference = Difference::between(&before, &after);
    let expected = [
        ("device_reads", 5),
        ("device_read_bytes", 40 * 512),
        ("device_read_wait_ms", 10), // past 2^32
        ("device_in_flight", 2),
        ("drive_writes", 0),
        ("nvme_read_bytes", 3 * 512_000),
        ("nvme_written_bytes", 0),
        ("nvme_temperature_kelvin", -5),
        ("nvme_percentage_used_percent", 1),
        ("ocp_media_written_bytes", 4096),
    ];
    for (name, change) in expected {
        assert_eq!(difference.change(name), Some(change), "{name}");
    }
    // The reading has only eleven fields, so no discards.
    assert_eq!(difference.change("device_discards"), None);
    assert!(difference.values().contains(&("device_discards", None, None)));
    let rows = difference.rows();
    let row = |title: &str| rows.iter().find(|row| row.0 == title).cloned().expect("a row of that title");
    let of = |texts: [&str; 4]| (texts[0].into(), texts[1].into(), texts[2].into(), texts[3].into());
    assert_eq!(row("NVMe: temperature (C)"), of(["NVMe: temperature (C)", "35", "30", "-5"]));
    assert_eq!(row("device: requests in flight"), of(["device: requests in flight", "0", "2", "+2"]));
    assert_eq!(row("NVMe: critical warning (bits)"), of(["NVMe: critical warning (bits)", "0x2a", "0x2a", "-"]));
    assert!(!rows.iter().any(|row| row.0 == "device: discards"));
}

#[test]
fn what_cannot_be_known_is_not_made_up() {
    let one = Health { data_units_read: 0, data_units_written: 0, host_writes: 9, ..Health::default() };
    let two = Health { data_units_written: 2, host_writes: 7, host_reads: u64::MAX, ..one };
    let difference = Difference::between(&reading(&[STAT], Some(one), None), &reading(&[STAT], Some(two), None));
    // Not reported; went down; saturated. A change from 0 to something counts as a difference.
    assert_eq!(difference.change("nvme_read_bytes"), None);
    assert!(difference.values().contains(&("nvme_read_bytes", None, None)));
    assert_eq!(difference.change("nvme_host_writes"), None);
    assert_eq!(difference.change("nvme_host_reads"), None);
    assert_eq!(difference.change("nvme_written_bytes"), Some(1_024_000));
    assert!(difference.values().contains(&("nvme_temperature_kelvin", None, None)));
    assert_eq!(difference.change("drive_reads"), None);
    let half = Difference::between(&reading(&[STAT], Some(one), None), &reading(&[STAT], None, None));
    assert_eq!(half.change("nvme_power_cycles"), None);
    assert!(half.values().contains(&("nvme_power_cycles", Some(0), None)));
}

#[test]
fn another_drive_has_no_difference() {
    let before = reading(&[STAT], None, None);
    let mut after = reading(&[STAT], None, None);
    after.layers[0].sequence = Some(2);
    let difference = Difference::between(&before, &after);
    assert!(difference.values().is_empty() && difference.rows().is_empty());
    assert!(difference.left_out()[0].contains("different devices"), "{:?}", difference.left_out());
}

#[test]
fn names_are_unique_and_reasons_are_said_once() {
    let mut before = reading(&[STAT, STAT], Some(Health::default()), None);
    before.leave_out(Source::Media, "why");
    let difference = Difference::between(&before, &before.clone());
    let mut names: Vec<&str> = difference.values().iter().map(|value| value.0).collect();
    assert_eq!(names.len(), 17 + 17 + 21 + 2);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 17 + 17 + 21 + 2);
    assert_eq!(difference.left_out(), ["medium's counters (OCP): left out: why"]);
}
