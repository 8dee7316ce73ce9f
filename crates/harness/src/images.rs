//! The files of a pool's devices, for faults planted between a kill and the next start.

use crate::setting::Setting;
use anyhow::{Context, Result};
use forebay_block::BLOCK_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The images of both devices of a pool.
pub struct Images {
    directory: PathBuf,
}

impl Images {
    /// The images of a setting, below the directory of the run.
    pub fn of(directory: &Path, setting: &Setting) -> Self {
        Self { directory: directory.join(setting.kind.name) }
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        for name in ["fast", "capacity"] {
            let (from, to) = (format!("{name}.{from}"), format!("{name}.{to}"));
            std::fs::copy(self.directory.join(&from), self.directory.join(to))
                .with_context(|| format!("cannot copy {from}"))?;
        }
        Ok(())
    }

    /// Copies both images.
    pub fn keep(&self) -> Result<()> {
        self.copy("img", "kept")
    }

    /// Restores the copies.
    pub fn put_back(&self) -> Result<()> {
        self.copy("kept", "img")
    }

    /// Swaps each block that has data with the next one, in pairs.
    pub fn swap_blocks(&self) -> Result<()> {
        let path = self.directory.join("capacity.img");
        let file = File::options().read(true).write(true).open(&path)?;
        let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
        // The head of the device and the last superblock stay: the fault concerns data.
        for pair in 64..blocks / 2 - 64 {
            let offset = pair * 2 * BLOCK_BYTES as u64;
            let mut both = [0; 2 * BLOCK_BYTES];
            file.read_exact_at(&mut both, offset)?;
            if both.iter().any(|&byte| byte != 0) {
                both.rotate_left(BLOCK_BYTES);
                file.write_all_at(&both, offset)?;
            }
        }
        Ok(())
    }
}
