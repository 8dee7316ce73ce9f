//! The committed inputs of the fuzzer, unchanged and with small seeded changes. `fuzz/run` searches for new ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use forebay_block::checksum::crc32c;
use forebay_hostile::KINDS;
use std::fs;
use std::path::Path;

/// Number of changed copies of each input.
const CHANGES: u32 = 60;

#[test]
fn committed_inputs_and_their_like_are_survived() {
    // The reader of Parquet catches panics of its decoder, which are not faults: only a panic that leaves `run` is
    // one.
    let failed: Vec<String> = KINDS
        .iter()
        .flat_map(|(kind, run)| inputs(kind).into_iter().map(move |(name, bytes)| (*kind, *run, name, bytes)))
        .filter_map(|(kind, run, name, bytes)| {
            let failed = (0..=CHANGES).find(|&change| {
                let input = changed(&bytes, change);
                std::panic::catch_unwind(|| run(&input)).is_err()
            })?;
            Some(format!("{kind}/{name}, change {failed}"))
        })
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn each_kind_has_inputs_and_each_folder_a_kind() {
    let folders = fs::read_dir(corpora()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<String> = folders.collect();
    folders.sort();
    assert_eq!(folders, KINDS.map(|(kind, _)| kind.to_owned()));
    for (kind, _) in KINDS {
        assert!(!inputs(kind).is_empty(), "{kind}");
    }
}

fn corpora() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn inputs(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<(String, Vec<u8>)> = fs::read_dir(corpora().join(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// The input itself for change 0; otherwise with a few bytes flipped, a piece removed or its end cut off, always in
/// the same way.
fn changed(input: &[u8], change: u32) -> Vec<u8> {
    let mut bytes = input.to_vec();
    if change == 0 || bytes.is_empty() {
        return bytes;
    }
    let mut state = crc32c(&[input, &change.to_le_bytes()].concat());
    let mut below = |bound: usize| {
        // One step of a linear congruential generator (Numerical Recipes), whose upper half is used.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % bound
    };
    match change % 3 {
        0 => bytes.truncate(below(input.len())),
        1 => {
            let from = below(input.len());
            let to = (from + 1 + below(16)).min(input.len());
            bytes.drain(from..to);
        }
        _ => {
            for _ in 0..=below(6) {
                let at = below(input.len());
                bytes[at] ^= 1 << below(8);
            }
        }
    }
    bytes
}
