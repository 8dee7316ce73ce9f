//! One connection with its part of the disk, the expected contents of that part, and its measurements.

use anyhow::{Context, Result, anyhow, bail};
use forebay_block::BLOCK_BYTES;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use forebay_proof::oracle::{Made, Oracle, Place};
use forebay_proof::stamp::{BLOCK_SECTORS, content_of, fill_all};
use forebay_proof::tally::Tally;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Latencies in nanoseconds, by kind of request.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Writes.
    pub write: Vec<u64>,
    /// Flushes, and writes with FUA.
    pub flush: Vec<u64>,
    /// Reads.
    pub read: Vec<u64>,
}

impl Latencies {
    /// The value that a share `quantile` of all values does not exceed; `None` without values.
    pub fn quantile(values: &mut [u64], quantile: f64) -> Option<u64> {
        values.sort_unstable();
        let rank = (quantile * values.len() as f64).ceil() as usize;
        values.get(rank.clamp(1, values.len().max(1)) - 1).copied()
    }
}

/// A command in progress, as recorded in the oracle.
enum Sent {
    Change { made: Made, fua: bool, is_trim: bool },
    Flush { event: u64 },
}

/// A connection with its part of the disk.
pub struct Line {
    /// Class of the data in this part.
    pub class: &'static str,
    /// The part, in blocks of the disk.
    pub blocks: Range<u64>,
    /// Latencies of all requests.
    pub latencies: Latencies,
    /// Bytes written.
    pub written_bytes: u64,
    /// Covers this part only: a flush of another line's connection proves nothing about this line's writes.
    oracle: Oracle,
    client: Option<NbdClient>,
    sent: BTreeMap<u64, (Instant, Sent)>,
}

const READ_BLOCKS: usize = 256;
const TIMEOUT: Duration = Duration::from_secs(60);

impl Line {
    /// A line that is not connected yet.
    pub fn new(class: &'static str, blocks: Range<u64>) -> Self {
        let (oracle, sent) = (Oracle::default(), BTreeMap::new());
        Self { class, blocks, latencies: Latencies::default(), written_bytes: 0, oracle, client: None, sent }
    }

    /// Number of blocks of the part.
    pub fn len(&self) -> usize {
        (self.blocks.end - self.blocks.start) as usize
    }

    /// Connects, or connects again.
    pub fn connect(&mut self, uri: &NbdUri) -> Result<()> {
        self.sent.clear();
        let options = ClientOptions { timeout: TIMEOUT, ..ClientOptions::default() };
        self.client = Some(NbdClient::connect(&uri.endpoint, &uri.export, &options)?);
        Ok(())
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            // The server may have closed the connection before.
            let _ = client.disconnect();
        }
    }

    fn client(&mut self) -> Result<&mut NbdClient> {
        self.client.as_mut().context("not connected")
    }

    /// The oracle's address of a block of the part.
    fn place(&self, index: usize) -> Place {
        (0, self.blocks.start + index as u64)
    }

    fn offset(&self, index: usize) -> u64 {
        self.place(index).1 * BLOCK_BYTES as u64
    }

    fn change(&mut self, index: usize, tags: &[u32]) -> Made {
        let (disk, block) = self.place(index);
        self.oracle.change(disk, block * BLOCK_SECTORS as u64, tags)
    }

    /// Sends a write with new versions of the blocks.
    pub fn write(&mut self, index: usize, blocks: usize, fua: bool) -> Result<()> {
        let tags = self.oracle.new_tags(blocks * BLOCK_SECTORS);
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        fill_all(&tags, &mut bytes);
        let made = self.change(index, &tags);
        let offset_bytes = self.offset(index);
        let cookie = self.client()?.submit_write(offset_bytes, &bytes, fua)?;
        self.written_bytes += bytes.len() as u64;
        self.sent.insert(cookie, (Instant::now(), Sent::Change { made, fua, is_trim: false }));
        Ok(())
    }

    /// Sends a discard.
    pub fn trim(&mut self, index: usize, blocks: usize) -> Result<()> {
        let made = self.change(index, &vec![0; blocks * BLOCK_SECTORS]);
        let offset_bytes = self.offset(index);
        let len = u32::try_from(blocks * BLOCK_BYTES)?;
        let cookie = self.client()?.submit_trim(offset_bytes, len, false)?;
        self.sent.insert(cookie, (Instant::now(), Sent::Change { made, fua: false, is_trim: true }));
        Ok(())
    }

    /// Waits for replies until at most `left` commands are in progress.
    pub fn settle(&mut self, left: usize) -> Result<()> {
        while self.sent.len() > left {
            let reply = self.client()?.wait()?;
            let Some((at, sent)) = self.sent.remove(&reply.cookie) else {
                bail!("a reply to nothing");
            };
            let ns = at.elapsed().as_nanos() as u64;
            reply.result.map_err(|error| anyhow!("a {:?} failed: {error}", reply.command))?;
            match sent {
                Sent::Change { made, fua, is_trim } => {
                    self.oracle.acknowledge(&made, fua);
                    match (is_trim, fua) {
                        (true, _) => {}
                        (false, true) => self.latencies.flush.push(ns),
                        (false, false) => self.latencies.write.push(ns),
                    }
                }
                Sent::Flush { event } => {
                    self.oracle.flushed(event);
                    self.latencies.flush.push(ns);
                }
            }
        }
        Ok(())
    }

    /// Waits for all commands, then makes their writes durable with a flush.
    pub fn flush(&mut self) -> Result<()> {
        self.settle(0)?;
        let event = self.oracle.flush_begins();
        let cookie = self.client()?.submit_flush()?;
        self.sent.insert(cookie, (Instant::now(), Sent::Flush { event }));
        self.settle(0)
    }

    /// Writes blocks with FUA; they are durable when this returns.
    pub fn write_durably(&mut self, index: usize, blocks: usize) -> Result<()> {
        self.settle(0)?;
        self.write(index, blocks, true)?;
        self.settle(0)
    }

    /// Reads a block and checks that it has its newest contents.
    pub fn read(&mut self, index: usize) -> Result<()> {
        self.settle(0)?;
        let (place, offset_bytes) = (self.place(index), self.offset(index));
        let sent = Instant::now();
        let client = self.client()?;
        let cookie = client.submit_read(offset_bytes, BLOCK_BYTES as u32)?;
        let reply = client.wait_for(cookie)?;
        self.latencies.read.push(sent.elapsed().as_nanos() as u64);
        reply.result.map_err(|error| anyhow!("a read failed: {error}"))?;
        let seen = self.oracle.saw_block(place, content_of(&reply.data), self.oracle.read_begins(place));
        seen.map_err(|objection| {
            anyhow!("class {}: a read did not return what was written last: {objection}", self.class)
        })
    }

    /// Reads the whole part and checks each block; the first few errors are appended to `wrong`.
    pub fn check(&mut self, wrong: &mut Vec<String>) -> Result<Tally> {
        const COMPLAINTS_MAX: usize = 10;
        let mut tally = Tally::default();
        for at in (0..self.len()).step_by(READ_BLOCKS) {
            let blocks = READ_BLOCKS.min(self.len() - at);
            let offset_bytes = self.offset(at);
            let client = self.client()?;
            let cookie = client.submit_read(offset_bytes, (blocks * BLOCK_BYTES) as u32)?;
            let reply = client.wait_for(cookie)?;
            reply.result.map_err(|error| anyhow!("a read at byte {offset_bytes} failed: {error}"))?;
            for (index, bytes) in (at..).zip(reply.data.chunks_exact(BLOCK_BYTES)) {
                let objection = tally.count(self.oracle.survived(self.place(index), content_of(bytes)));
                let shown = objection.filter(|_| wrong.len() < COMPLAINTS_MAX);
                wrong.extend(shown.map(|objection| format!("class {}, {objection}", self.class)));
            }
        }
        self.oracle.restarted();
        Ok(tally)
    }
}
