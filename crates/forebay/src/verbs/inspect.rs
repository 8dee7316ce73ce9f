//! `forebay inspect PATH`.

use crate::output::{self, Format};
use anyhow::{Result, anyhow};
use forebay_block::Device;
use forebay_daemon::contents::OWN_SIGNATURE;
use forebay_daemon::finding::finding;
use forebay_daemon::pool;
use forebay_device::{Holder, OpenError, OpenMode, Signature, Target, detect};
use forebay_volume::Devices;
use forebay_volume::layout::array_label::ArrayLabel;
use forebay_volume::layout::member_label::MemberLabel;
use forebay_volume::layout::root::{HEADER_BYTES, RootHeader};
use forebay_volume::layout::superblock::{Role, SIZE_BYTES, Superblock, SuperblockError, copy_offsets_bytes};
use forebay_volume::layout::{Id, capacity_root, format_id};
use forebay_volume::mirror::read_label;
use forebay_volume::parity;
use forebay_volume::recovery::capacity::{Found, read_capacity_roots};
use forebay_volume::recovery::read_superblock;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::time::Duration;

/// Contents of a device.
struct Looked {
    value: Value,
    text: Vec<String>,
    damage: Vec<String>,
}

/// Shows the contents of a device.
///
/// # Errors
/// A finding where the device is damaged.
pub fn run(path: &str, format: Format) -> Result<()> {
    let target: Target = path.parse()?;
    let (device, holder) = opened(&target)?;
    let mut devices = Devices::new(vec![device]);
    let mut looked = look_again(&mut devices, if holder.is_some() { LOOKS_BESIDE } else { 1 })?;
    if let Some(holder) = &holder {
        looked.say_in_use(holder);
    }
    match format {
        Format::Json => output::json(looked.value)?,
        Format::Table => output::text(&looked.text.join("\n"))?,
    }
    if looked.damage.is_empty() {
        Ok(())
    } else {
        Err(finding(format!("{path} is damaged: {}", looked.damage.join("; "))))
    }
}

/// Opens what is to be looked at, also beside a server that has it, which is given then.
fn opened(target: &Target) -> Result<(Box<dyn Device>, Option<Holder>)> {
    let refused = match pool::open_target(target, OpenMode::ReadOnly) {
        Ok(device) => return Ok((device, None)),
        Err(refused) => refused,
    };
    let in_use = refused.chain().find_map(|cause| match cause.downcast_ref() {
        Some(OpenError::InUse { holder, .. }) => Some(holder.clone()),
        _ => None,
    });
    if in_use.is_some() {
        return Ok((pool::open_target(target, OpenMode::ReadBeside)?, in_use));
    }
    Err(match refused.downcast_ref() {
        // What it advises is for those who make a pool.
        Some(OpenError::TooSmall { size_bytes, .. }) => anyhow!(
            "target {target} has {}, and nothing of a pool finds room in that: look whether it is the file that is meant; one that held a device was cut \
             off, and is to be restored from a backup",
            output::count(*size_bytes, "byte")
        ),
        Some(OpenError::Open { source, .. }) if source.kind() == ErrorKind::NotFound => {
            anyhow!("there is no {target}: name a device or file of a pool, as `target` of its configuration does")
        }
        _ => refused,
    })
}

/// What a server is just writing may look damaged: that is looked at so often, and so long apart.
const LOOKS_BESIDE: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Looks until nothing is damaged, `looks` times at most.
fn look_again(devices: &mut Devices, looks: u32) -> Result<Looked> {
    let mut left = looks;
    loop {
        let signatures = detect(devices.list[0].as_mut())?;
        let looked = look(devices, &signatures);
        left = left.saturating_sub(1);
        if looked.damage.is_empty() || left == 0 {
            return Ok(looked);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

impl Looked {
    /// Notes that somebody else has the device, and may have changed it between two reads.
    fn say_in_use(&mut self, holder: &Holder) {
        let who = holder.process().unwrap_or_else(|| "somebody else".to_owned());
        self.text.insert(
            1,
            format!("{who} has it open and may write to it: what follows was read beside that, and may be of several moments"),
        );
        self.value["in_use_by"] = who.into();
    }
}

fn look(devices: &mut Devices, signatures: &[Signature]) -> Looked {
    let geometry = devices.list[0].geometry().clone();
    let name = devices.list[0].name().to_owned();
    let mut damage = Vec::new();
    let mut text = vec![format!(
        "{name}: {} ({} bytes), logical block {} bytes, {}",
        output::size(geometry.size_bytes),
        geometry.size_bytes,
        geometry.logical_block_bytes,
        if geometry.volatile_cache { "volatile write cache" } else { "no volatile write cache" }
    )];
    let mut best: Option<Superblock> = None;
    let mut copies = Vec::new();
    let mut lines = Vec::new();
    let array = parity::read_label(devices, 0);
    // On a device that was enlarged, the last copy is at its former end.
    let superblock = read_superblock(devices, 0).ok().map(|(superblock, _)| superblock);
    let recorded_bytes = superblock.map(|superblock| formatted_bytes(&superblock, array.as_ref()));
    for offset_bytes in copy_offsets_bytes(recorded_bytes.unwrap_or(geometry.size_bytes)) {
        let is_there = offset_bytes + SIZE_BYTES as u64 <= geometry.size_bytes;
        let (state, epoch) = match devices.read(0, offset_bytes, SIZE_BYTES) {
            // A device too small for this copy never had it, unless another copy shows that it was larger.
            _ if !is_there => (ABSENT.to_owned(), None),
            Err(error) => {
                damage.push(format!("superblock copy at {offset_bytes}: {error}"));
                (error.to_string(), None)
            }
            Ok(bytes) => match Superblock::decode(&bytes) {
                Ok(superblock) => {
                    let key = |s: &Superblock| (s.generation, s.epoch, s.serving);
                    let epoch = Some(superblock.epoch);
                    if best.as_ref().is_none_or(|other| key(&superblock) > key(other)) {
                        best = Some(superblock);
                    }
                    ("good".to_owned(), epoch)
                }
                Err(SuperblockError::Absent) => (ABSENT.to_owned(), None),
                Err(error) => {
                    damage.push(format!("superblock copy at {offset_bytes}: {error}"));
                    (error.to_string(), None)
                }
            },
        };
        lines.push(format!("superblock copy at {offset_bytes}: {state}"));
        copies.push(json!({ "offset_bytes": offset_bytes, "state": state, "epoch": epoch }));
    }
    let label = read_label(devices, 0);
    let foreign: Vec<&Signature> = signatures.iter().filter(|found| found.name != OWN_SIGNATURE).collect();
    let mut value = json!({
        "target": name,
        "size_bytes": geometry.size_bytes,
        "logical_block_bytes": geometry.logical_block_bytes,
        "volatile_cache": geometry.volatile_cache,
        "signatures": signatures.iter()
            .map(|found| json!({ "name": found.name, "offset_bytes": found.offset_bytes }))
            .collect::<Vec<_>>(),
        "superblock_copies": copies,
        "in_use_by": null,
    });
    text.extend(foreign.iter().map(|found| format!("signature: {found}")));
    let touched = best.is_some() || !damage.is_empty();
    if touched {
        text.extend(lines);
    } else if foreign.is_empty() {
        text.push("nothing known is on it".to_owned());
    }
    if let Some(superblock) = best {
        for copy in copies_absent(&value) {
            damage.push(format!("superblock copy at {copy} is missing"));
        }
        let formatted_bytes = formatted_bytes(&superblock, array.as_ref());
        if geometry.size_bytes < formatted_bytes {
            damage
                .push(format!("it has {} bytes, but had {formatted_bytes} when it was formatted", geometry.size_bytes));
        }
        describe(devices, &superblock, &mut value, &mut text, &mut damage);
        if let Some(label) = label {
            describe_label(&label, &mut value, &mut text);
        }
        if let Some(label) = array {
            describe_array(&label, &mut value, &mut text);
        }
    }
    value["damage"] = json!(damage);
    Looked { value, text, damage }
}

/// The epoch of a pool that was never opened.
const EPOCH_CREATED: u64 = 1;

/// State of a missing superblock copy.
const ABSENT: &str = "absent";

/// The device's size at formatting. For a member of a tier with parity the superblock has the size of the whole tier, the label that of the
/// member.
fn formatted_bytes(superblock: &Superblock, array: Option<&ArrayLabel>) -> u64 {
    match array {
        Some(label) if superblock.member().role == Role::Capacity => label.shape.member_bytes,
        _ => superblock.member().size_bytes,
    }
}

/// Members by their ids, which `serve` and `status` show for missing members.
fn members_of(ids: &[Id], own: Option<usize>, in_sync: &[usize]) -> Vec<String> {
    let line = |(number, id): (usize, &Id)| {
        let is_own = if own == Some(number) { ", which is this one" } else { "" };
        let is_behind = if in_sync.contains(&number) { "" } else { ", which does not hold everything" };
        format!("  {number}: {}{is_own}{is_behind}", format_id(id))
    };
    ids.iter().enumerate().map(line).collect()
}

/// Adds the number of this member of a mirrored fast tier, and which members are in sync.
fn describe_label(label: &MemberLabel, value: &mut Value, text: &mut Vec<String>) {
    let in_sync: Vec<usize> = (0..label.ids.len()).filter(|&member| label.is_in_sync(member)).collect();
    value["mirror"] = json!({
        "member": label.member,
        "members": label.ids.iter().map(format_id).collect::<Vec<_>>(),
        "in_sync": in_sync,
        "rebuilding": label.rebuilding,
        "rebuilt_bytes": label.rebuilt_bytes,
        "generation": label.generation,
    });
    let numbers = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mine = label.member.map_or_else(String::new, |member| format!("member {member} of "));
    let rebuilding = label.rebuilding.map_or_else(String::new, |member| {
        format!("; member {member} was being rebuilt ({} copied)", output::size(label.rebuilt_bytes))
    });
    text.push(format!(
        "{mine}the fast tier's mirror of {}, generation {}: by this label everything is on {}{rebuilding}",
        label.ids.len(),
        label.generation,
        numbers(&in_sync)
    ));
    text.extend(members_of(&label.ids, label.member.map(usize::from), &in_sync));
}

/// Adds the number of this member of a capacity tier with parity, and which members are in sync.
fn describe_array(label: &ArrayLabel, value: &mut Value, text: &mut Vec<String>) {
    let in_sync: Vec<usize> = (0..label.ids.len()).filter(|&member| label.is_in_sync(member)).collect();
    let redundancy = format!("{}+{}", label.shape.data, label.shape.parity);
    value["parity"] = json!({
        "redundancy": redundancy,
        "member": label.member,
        "members": label.ids.iter().map(format_id).collect::<Vec<_>>(),
        "in_sync": in_sync,
        "rebuilding": label.rebuilding,
        "rebuilt_bytes": label.rebuilt_rows * 4096,
        "generation": label.generation,
    });
    let numbers = in_sync.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    text.push(format!(
        "member {} of a capacity tier with parity {redundancy}, generation {}: by this label everything is on {numbers}",
        label.member, label.generation
    ));
    text.extend(members_of(&label.ids, Some(usize::from(label.member)), &in_sync));
}

fn copies_absent(value: &Value) -> Vec<u64> {
    let copies = value["superblock_copies"].as_array().into_iter().flatten();
    copies.filter(|copy| copy["state"] == ABSENT).filter_map(|copy| copy["offset_bytes"].as_u64()).collect()
}

/// How far the opening of the pool came in its epoch. A superblock does not show whether a server uses the pool now.
fn state(superblock: &Superblock) -> &'static str {
    match (superblock.serving, superblock.epoch) {
        (true, EPOCH_CREATED) => "as created",
        (true, _) => "its opening was completed",
        (false, _) => "its opening was not completed",
    }
}

fn describe(
    devices: &mut Devices,
    superblock: &Superblock,
    value: &mut Value,
    text: &mut Vec<String>,
    damage: &mut Vec<String>,
) {
    let member = superblock.member();
    text.push(format!(
        "pool {:?} ({}), device {} of {}: {} ({})",
        superblock.name,
        format_id(&superblock.pool),
        superblock.index,
        superblock.members.len(),
        member.role.name(),
        format_id(&member.id)
    ));
    text.push(format!(
        "epoch {} ({}, opening {:016x}), generation {}, bands of {}, journal {} in units of {} bytes, {}",
        superblock.epoch,
        state(superblock),
        superblock.opening,
        superblock.generation,
        output::size(superblock.band_bytes),
        output::size(superblock.journal_len_bytes),
        superblock.journal_sector_bytes,
        output::count(superblock.slots, "slot")
    ));
    for (index, member) in superblock.members.iter().enumerate() {
        text.push(format!(
            "member {index}: {} {} ({}), data at {}",
            member.role.name(),
            output::size(member.size_bytes),
            format_id(&member.id),
            member.data_offset_bytes
        ));
    }
    value["pool"] = json!({
        "name": superblock.name,
        "id": format_id(&superblock.pool),
        "epoch": superblock.epoch,
        "serving": superblock.serving,
        "generation": superblock.generation,
        "band_bytes": superblock.band_bytes,
        "journal_offset_bytes": superblock.journal_offset_bytes,
        "journal_len_bytes": superblock.journal_len_bytes,
        "slots": superblock.slots,
    });
    value["device"] = json!({
        "index": superblock.index,
        "role": member.role.name(),
        "id": format_id(&member.id),
    });
    value["members"] = superblock
        .members
        .iter()
        .map(|member| {
            json!({
                "role": member.role.name(),
                "id": format_id(&member.id),
                "size_bytes": member.size_bytes,
                "data_offset_bytes": member.data_offset_bytes,
            })
        })
        .collect();
    if member.role == Role::Fast {
        roots(devices, superblock, value, text, damage);
    } else if usize::from(superblock.index) == capacity_root::DEVICE && superblock.capacity_area.exists() {
        capacity_roots(devices, superblock, value, text, damage);
    }
}

/// The state that the capacity tier holds by itself.
fn capacity_roots(
    devices: &mut Devices,
    superblock: &Superblock,
    value: &mut Value,
    text: &mut Vec<String>,
    damage: &mut Vec<String>,
) {
    let (mut listed, mut newest) = (Vec::new(), None);
    for found in read_capacity_roots(devices, 0, superblock) {
        let header = match found {
            Found::Nothing => continue,
            Found::Damaged(header) => {
                text.push(format!("capacity-side checkpoint {}: damaged", header.checkpoint));
                listed.push(json!({ "checkpoint": header.checkpoint, "epoch": header.epoch, "state": "damaged" }));
                continue;
            }
            Found::Root(header, root) => {
                if newest.as_ref().is_none_or(|(number, _)| *number < header.checkpoint) {
                    newest = Some((header.checkpoint, root));
                }
                header
            }
        };
        text.push(format!(
            "capacity-side checkpoint {}: epoch {}, {} bytes",
            header.checkpoint, header.epoch, header.blob_len_bytes
        ));
        listed.push(json!({ "checkpoint": header.checkpoint, "epoch": header.epoch, "state": "good" }));
    }
    value["capacity_checkpoints"] = Value::Array(listed);
    let Some((number, root)) = newest else {
        damage.push("no capacity-side checkpoint is whole: without the fast tier nothing can be read".to_owned());
        return;
    };
    let used = root.bands.iter().filter(|band| !band.is_free).count();
    text.push(format!("at checkpoint {number}: {used} of {} in use", output::count(root.bands.len() as u64, "band")));
    for disk in &root.disks {
        text.push(format!(
            "disk {} ({}): {}, {} of tiers{}",
            disk.name,
            disk.id,
            output::size(disk.size_bytes),
            output::count(disk.pages.len() as u64, "page"),
            if disk.unlisted_from == capacity_root::ALL_LISTED { "" } else { ", not all of them listed" }
        ));
    }
    value["disks"] = root
        .disks
        .iter()
        .map(|disk| json!({ "id": disk.id, "name": disk.name, "size_bytes": disk.size_bytes }))
        .collect();
}

fn roots(
    devices: &mut Devices,
    superblock: &Superblock,
    value: &mut Value,
    text: &mut Vec<String>,
    damage: &mut Vec<String>,
) {
    let mut headers = Vec::new();
    let mut usable = false;
    for area in superblock.root_offsets_bytes {
        for offset_bytes in [area, area + superblock.root_len_bytes.saturating_sub(HEADER_BYTES as u64)] {
            let bytes = devices.read(0, offset_bytes, HEADER_BYTES);
            let header = bytes.ok().and_then(|bytes| RootHeader::decode(&bytes, &superblock.pool));
            let state = match header {
                Some(header) if header.superseded_by == 0 => {
                    usable = true;
                    format!("checkpoint {}, epoch {}, {} bytes", header.checkpoint, header.epoch, header.blob_len_bytes)
                }
                Some(header) => format!("checkpoint {}, superseded by {}", header.checkpoint, header.superseded_by),
                None => "none".to_owned(),
            };
            text.push(format!("root header at {offset_bytes}: {state}"));
            headers.push(json!({
                "offset_bytes": offset_bytes,
                "checkpoint": header.map(|header| header.checkpoint),
                "epoch": header.map(|header| header.epoch),
                "superseded_by": header.map(|header| header.superseded_by),
            }));
        }
    }
    value["roots"] = Value::Array(headers);
    if !usable {
        damage.push("no usable root header: the state of the pool cannot be read".to_owned());
    }
}
