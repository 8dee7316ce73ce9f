//! One connection with its part of the disk, the model of that part, and what it measured.

use super::content::fill;
use super::model::{Region, Verdict};
use anyhow::{Context, Result, anyhow, bail};
use forebay_block::BLOCK_BYTES;
use forebay_device::nbd_client::{ClientOptions, Command, NbdClient, NbdUri};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Latencies in nanoseconds, by kind of request.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Writes.
    pub write: Vec<u64>,
    /// Flushes, and writes that are durable by themselves.
    pub flush: Vec<u64>,
    /// Reads.
    pub read: Vec<u64>,
}

impl Latencies {
    /// The value below which a share of all lies; `None` where there are none.
    pub fn quantile(values: &mut [u64], quantile: f64) -> Option<u64> {
        values.sort_unstable();
        let rank = (quantile * values.len() as f64).ceil() as usize;
        values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
    }
}

/// What a check of the whole part found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Blocks that could only hold one thing, and did.
    pub durable: u64,
    /// Blocks with unflushed writes that hold the flushed state.
    pub old: u64,
    /// Blocks with unflushed writes that hold one of them.
    pub new: u64,
    /// Blocks that hold what they must not.
    pub wrong: u64,
}

/// A connection and its part of the disk.
pub struct Line {
    /// Name of the class that the part is for.
    pub class: &'static str,
    /// Model of the part.
    pub region: Region,
    /// Everything measured.
    pub latencies: Latencies,
    /// Bytes written.
    pub written_bytes: u64,
    client: Option<NbdClient>,
    sent: BTreeMap<u64, (Instant, bool)>,
}

const READ_BLOCKS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(60);

impl Line {
    /// A part of the disk, not connected yet.
    pub fn new(class: &'static str, region: Region) -> Self {
        Self { class, region, latencies: Latencies::default(), written_bytes: 0, client: None, sent: BTreeMap::new() }
    }

    /// Connects, anew where it was connected.
    pub fn connect(&mut self, uri: &NbdUri) -> Result<()> {
        self.sent.clear();
        let options = ClientOptions { timeout: PATIENCE, ..ClientOptions::default() };
        self.client = Some(NbdClient::connect(&uri.endpoint, &uri.export, &options)?);
        Ok(())
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            // The server may have gone first.
            let _ = client.disconnect();
        }
    }

    fn client(&mut self) -> Result<&mut NbdClient> {
        self.client.as_mut().context("not connected")
    }

    fn offset(&self, index: usize) -> u64 {
        (self.region.first_block() + index as u64) * BLOCK_BYTES as u64
    }

    /// Sends a write of new versions.
    pub fn write(&mut self, index: usize, blocks: usize, fua: bool) -> Result<()> {
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        for (i, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let version = self.region.issue(index + i, false);
            fill(block, self.region.first_block() + (index + i) as u64, version);
        }
        let offset_bytes = self.offset(index);
        let cookie = self.client()?.submit_write(offset_bytes, &bytes, fua)?;
        self.written_bytes += bytes.len() as u64;
        self.sent.insert(cookie, (Instant::now(), fua));
        Ok(())
    }

    /// Sends a discard.
    pub fn trim(&mut self, index: usize, blocks: usize) -> Result<()> {
        for i in 0..blocks {
            self.region.issue(index + i, true);
        }
        let offset_bytes = self.offset(index);
        let len = u32::try_from(blocks * BLOCK_BYTES)?;
        let cookie = self.client()?.submit_trim(offset_bytes, len, false)?;
        self.sent.insert(cookie, (Instant::now(), false));
        Ok(())
    }

    /// Takes replies until at most `left` commands are under way.
    pub fn settle(&mut self, left: usize) -> Result<()> {
        while self.sent.len() > left {
            let reply = self.client()?.wait()?;
            let Some((sent, durable)) = self.sent.remove(&reply.cookie) else {
                bail!("a reply to nothing");
            };
            let ns = sent.elapsed().as_nanos() as u64;
            match reply.command {
                Command::Write if !durable => self.latencies.write.push(ns),
                Command::Write | Command::Flush => self.latencies.flush.push(ns),
                Command::Read => self.latencies.read.push(ns),
                _ => {}
            }
            reply.result.map_err(|error| anyhow!("a {:?} failed: {error}", reply.command))?;
        }
        Ok(())
    }

    /// Makes everything durable.
    pub fn flush(&mut self) -> Result<()> {
        self.settle(0)?;
        let cookie = self.client()?.submit_flush()?;
        self.sent.insert(cookie, (Instant::now(), true));
        self.settle(0)?;
        self.region.flushed();
        Ok(())
    }

    /// Writes a block that is durable when this returns.
    pub fn write_durably(&mut self, index: usize, blocks: usize) -> Result<()> {
        self.settle(0)?;
        self.write(index, blocks, true)?;
        self.settle(0)?;
        for i in 0..blocks {
            self.region.durable(index + i);
        }
        Ok(())
    }

    /// Reads a block and checks that it is the newest.
    pub fn read(&mut self, index: usize) -> Result<()> {
        self.settle(0)?;
        let offset_bytes = self.offset(index);
        let sent = Instant::now();
        let client = self.client()?;
        let cookie = client.submit_read(offset_bytes, BLOCK_BYTES as u32)?;
        let reply = client.wait_for(cookie)?;
        self.latencies.read.push(sent.elapsed().as_nanos() as u64);
        reply.result.map_err(|error| anyhow!("a read failed: {error}"))?;
        if !self.region.is_newest(index, &reply.data) {
            bail!("class {}: a read at byte {offset_bytes} did not return what was written last", self.class);
        }
        Ok(())
    }

    /// Reads everything and judges each block; complaints are appended to `wrong`, a few at most.
    pub fn check(&mut self, wrong: &mut Vec<String>) -> Result<Checked> {
        const COMPLAINTS_MAX: usize = 10;
        let mut checked = Checked::default();
        let mut at = 0;
        while at < self.region.len() {
            let blocks = READ_BLOCKS.min(self.region.len() - at);
            let offset_bytes = self.offset(at);
            let client = self.client()?;
            let cookie = client.submit_read(offset_bytes, (blocks * BLOCK_BYTES) as u32)?;
            let reply = client.wait_for(cookie)?;
            reply.result.map_err(|error| anyhow!("a read at byte {offset_bytes} failed: {error}"))?;
            for (i, bytes) in reply.data.chunks_exact(BLOCK_BYTES).enumerate() {
                let expected = self.region.describe(at + i);
                match self.region.judge(at + i, bytes) {
                    Verdict::Durable => checked.durable += 1,
                    Verdict::OldKept => checked.old += 1,
                    Verdict::NewKept => checked.new += 1,
                    Verdict::Wrong(content) => {
                        checked.wrong += 1;
                        if wrong.len() < COMPLAINTS_MAX {
                            let block = self.region.first_block() + (at + i) as u64;
                            wrong.push(format!(
                                "class {}, block {block}: {content:?} instead of {expected}",
                                self.class
                            ));
                        }
                    }
                }
            }
            at += blocks;
        }
        self.region.settled();
        Ok(checked)
    }
}
