//! Opening a bucket to write fences off the server that uses it. A start that cannot succeed must not do that. So the
//! bucket is read first, and must belong to the same pool as one of the fast devices.

use super::devices::{is_lost, open_target};
use super::missing::explain_unopened;
use crate::config::Config;
use anyhow::{Error, Result, anyhow};
use forebay_device::{OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::layout::format_id;
use forebay_volume::layout::superblock::{Superblock, SuperblockError};
use forebay_volume::recovery::{MemberError, OpenError, read_superblock};

/// Reads the superblocks of buckets and fast devices, writes nothing, and releases all locks again.
///
/// # Errors
/// A bucket belongs to another pool; the message says what to do. An [`OpenError`] where a device is damaged.
pub fn refuse_buckets_of_others(config: &Config) -> Result<()> {
    let buckets: Vec<&Target> = config.targets().filter(|target| target.bucket().is_some()).collect();
    if buckets.is_empty() {
        return Ok(());
    }
    let found: Vec<_> = config.fast.iter().map(|fast| superblock_of(&fast.target.0)).collect();
    for target in buckets {
        let superblock = match superblock_of(target) {
            Ok(superblock) => superblock,
            Err(error) if is_lost(&error) || is_absent(&error) => return Err(explain_unopened(config, error)),
            Err(error) => return Err(error),
        };
        if found.iter().flatten().any(|fast| fast.pool == superblock.pool) {
            continue;
        }
        // A damaged fast device may belong to the bucket's pool, so its error comes first.
        let damaged =
            found.into_iter().filter_map(Result::err).find(|error| error.is::<OpenError>() && !is_absent(error));
        return Err(damaged.unwrap_or_else(|| {
            let (name, id) = (&superblock.name, format_id(&superblock.pool));
            let text = format!(
                "target {target} belongs to pool {name:?} ({id}), and no [[fast]] device of the configuration does: it is left alone. \
                 Correct the targets (`forebay inspect PATH` shows what a device is)"
            );
            explain_unopened(config, anyhow!(text))
        }));
    }
    Ok(())
}

fn superblock_of(target: &Target) -> Result<Superblock> {
    let mut devices = Devices::new(vec![open_target(target, OpenMode::ReadOnly)?]);
    let found = read_superblock(&mut devices, 0);
    found.map(|(superblock, _)| superblock).map_err(|error| Error::new(OpenError::Member(error)))
}

/// Whether the error says that the device holds no pool.
fn is_absent(error: &Error) -> bool {
    let found = error.downcast_ref::<OpenError>();
    matches!(found, Some(OpenError::Member(MemberError::Superblock { source: SuperblockError::Absent, .. })))
}
