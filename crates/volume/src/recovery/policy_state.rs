//! What the policies had learned before the pool was stopped. It is restored where it is whole; otherwise the policies learn anew.

use crate::engine::Engine;
use crate::io::Devices;
use crate::layout::policy_state::{self, BLOCK_BYTES};
use crate::layout::superblock::Superblock;

/// What was found of the policies' state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyState {
    /// Nothing was ever written.
    #[default]
    Absent,
    /// The policies go on with it.
    Restored,
    /// It is damaged, or of another version of the program or size of the tier.
    Ignored,
}

/// Reads the state from beside both roots, and gives the newest to the policies. A failure here does not keep the pool from being opened.
pub(super) fn restore(devices: &mut Devices, superblock: &Superblock, engine: &mut Engine) -> PolicyState {
    let mut found = PolicyState::Absent;
    let mut newest: Option<(u64, Vec<u8>)> = None;
    for parity in [0, 1] {
        let Some(offset_bytes) = policy_state::offset_bytes(superblock, parity) else { continue };
        let len_of = |bytes: &[u8]| policy_state::len_bytes(bytes, &superblock.pool);
        let Ok(first) = devices.read_good(0, offset_bytes, BLOCK_BYTES, |bytes| len_of(bytes).is_some()) else {
            found = PolicyState::Ignored;
            continue;
        };
        let Some(len) = first.as_deref().and_then(len_of) else { continue };
        let is_good = |bytes: &[u8]| policy_state::decode(bytes, &superblock.pool).is_some();
        let read = devices.read_good(0, offset_bytes, len.next_multiple_of(BLOCK_BYTES), is_good).ok().flatten();
        match read.as_deref().map(|bytes| policy_state::decode(bytes, &superblock.pool)) {
            Some(Some((number, state))) => {
                if newest.as_ref().is_none_or(|(other, _)| number > *other) {
                    newest = Some((number, state.to_vec()));
                }
            }
            _ => found = PolicyState::Ignored,
        }
    }
    match newest {
        Some((_, state)) if engine.restore_policies(&state) => PolicyState::Restored,
        Some(_) => PolicyState::Ignored,
        None => found,
    }
}
