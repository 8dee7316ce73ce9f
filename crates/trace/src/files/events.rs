//! Decodes the events of fanotify(7), for groups with `FAN_REPORT_DFID_NAME_TARGET`: `include/uapi/linux/fanotify.h`.

use super::handle::Handle;

/// Bytes of `struct fanotify_event_metadata`.
const METADATA_BYTES: usize = 24;
const METADATA_VERSION: u8 = 3;
/// Bytes before the handle in its record: type, length, file system (`struct fanotify_event_info_fid`); and bytes of the handle's own head
/// (`struct file_handle`).
const INFO_BYTES: usize = 12;
const HANDLE_HEAD_BYTES: usize = 8;

const INFO_FID: u8 = 1;
const INFO_DFID_NAME: u8 = 2;
const INFO_DFID: u8 = 3;
const INFO_OLD_DFID_NAME: u8 = 10;
const INFO_NEW_DFID_NAME: u8 = 12;

/// A name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The folder.
    pub folder: Handle,
    /// The name.
    pub name: &'a [u8],
}

/// An event, or several of one file that the kernel has merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// `FAN_*` bits of all merged events.
    pub mask: u64,
    /// Folder and name of the event; for a rename, the new ones.
    pub entry: Option<Entry<'a>>,
    /// For a rename, the old folder and name.
    pub from: Option<Entry<'a>>,
    /// The file concerned, if the kernel reports it (from 5.17).
    pub file: Option<Handle>,
}

/// Iterates over the events read from a group; ends at the first malformed one.
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Event<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let metadata_len = usize::from(u16::from_ne_bytes(*rest.get(6..)?.first_chunk()?));
        let (event, after) = rest.split_at_checked(len)?;
        if metadata_len < METADATA_BYTES || event.get(4) != Some(&METADATA_VERSION) {
            return None;
        }
        rest = after;
        let mut found = Event { mask: u64::from_ne_bytes(*event.get(8..)?.first_chunk()?), ..Event::default() };
        let mut infos = event.get(metadata_len..)?;
        while let Some((info, after)) = split_info(infos) {
            infos = after;
            match info[0] {
                INFO_FID => found.file = handle(info).map(|(handle, _)| handle),
                INFO_DFID_NAME | INFO_NEW_DFID_NAME => found.entry = entry(info),
                INFO_OLD_DFID_NAME => found.from = entry(info),
                // An event of the folder itself.
                INFO_DFID if found.file.is_none() => found.file = handle(info).map(|(handle, _)| handle),
                _ => {}
            }
        }
        Some(found)
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn split_info(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?));
    if len < 4 { None } else { bytes.split_at_checked(len) }
}

/// The handle in a record, and the bytes behind it.
fn handle(info: &[u8]) -> Option<(Handle, &[u8])> {
    let head = info.get(INFO_BYTES..)?;
    let (len, kind) = (u32_at(head, 0)? as usize, u32_at(head, 4)?);
    let (bytes, after) = head.get(HANDLE_HEAD_BYTES..)?.split_at_checked(len)?;
    Some((Handle::decode(kind as i32, bytes)?, after))
}

fn entry(info: &[u8]) -> Option<Entry<'_>> {
    let (folder, name) = handle(info)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    Some(Entry { folder, name: &name[..end] })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::handle::Id;
    use super::*;
    use proptest::prelude::*;

    fn info(kind: u8, inode: u32, name: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&8u32.to_ne_bytes());
        bytes.extend_from_slice(&1u32.to_ne_bytes());
        bytes.extend_from_slice(&inode.to_ne_bytes());
        bytes.extend_from_slice(&(inode + 1000).to_ne_bytes());
        if let Some(name) = name {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_ne_bytes());
        bytes
    }

    fn event(mask: u64, infos: &[Vec<u8>]) -> Vec<u8> {
        let infos = infos.concat();
        let mut bytes = ((METADATA_BYTES + infos.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[METADATA_VERSION, 0]);
        bytes.extend_from_slice(&(METADATA_BYTES as u16).to_ne_bytes());
        bytes.extend_from_slice(&mask.to_ne_bytes());
        bytes.extend_from_slice(&(-1i32).to_ne_bytes());
        bytes.extend_from_slice(&42i32.to_ne_bytes());
        bytes.extend_from_slice(&infos);
        bytes
    }

    fn id(inode: u32) -> Handle {
        Handle { id: Id { inode: inode.into(), generation: inode + 1000 }, subvolume: 0 }
    }

    #[test]
    fn a_name_its_folder_and_its_file_are_reported() {
        let mut bytes = event(0x100, &[info(INFO_DFID_NAME, 5, Some("wal.log")), info(INFO_FID, 6, None)]);
        bytes.extend(event(
            0x1000_0000,
            &[info(INFO_OLD_DFID_NAME, 5, Some("a")), info(INFO_NEW_DFID_NAME, 7, Some("b")), info(INFO_FID, 6, None)],
        ));
        bytes.extend(event(0x4000, &[]));
        let found: Vec<Event> = events(&bytes).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].entry, Some(Entry { folder: id(5), name: b"wal.log" }));
        assert_eq!((found[0].file, found[0].from), (Some(id(6)), None));
        assert_eq!(found[1].from, Some(Entry { folder: id(5), name: b"a" }));
        assert_eq!(found[1].entry, Some(Entry { folder: id(7), name: b"b" }));
        assert_eq!(found[2], Event { mask: 0x4000, ..Event::default() });
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(at in 0usize..150, with in any::<u8>(), cut in 0usize..150) {
            let mut bytes = event(2, &[info(INFO_DFID_NAME, 5, Some("wal.log")), info(INFO_FID, 6, None)]);
            bytes.extend(event(8, &[info(INFO_FID, 6, None)]));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = with;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            prop_assert!(events(&bytes).count() <= bytes.len() / METADATA_BYTES);
        }
    }
}
