//! Opens the queues of each kind of target.

use super::arena::Arena;
use super::hold::Hold;
use super::medium::{Medium, Opened, open_medium};
use super::nbd::{self, NbdQueue};
use super::null::NullQueue;
use super::over_device::DeviceQueue;
use super::ring::RingQueue;
use super::ring_setup::{preferences, setup};
use super::shared_device::Handle;
use super::sync::{SyncQueue, calls_name};
use super::{Calls, OpenError, OpenedQueues, QueueOptions};
use crate::nbd_client::NbdUri;
use forebay_block::Queue;
use std::sync::Arc;

pub(super) fn open_null(size_bytes: u64, options: &QueueOptions, count: usize) -> Result<OpenedQueues, OpenError> {
    let queue = |_| Ok(Box::new(NullQueue::new(options.slots, options.buffer_bytes)?) as Box<dyn Queue>);
    Ok(OpenedQueues {
        queues: (0..count).map(queue).collect::<Result<_, OpenError>>()?,
        size_bytes: size_bytes / 512 * 512,
        logical_block_bytes: 512,
        description: "null: completes at once, touches no data".to_owned(),
        notes: Vec::new(),
        block_device: false,
    })
}

pub(super) fn open_file(hold: &Arc<Hold>, options: &QueueOptions, count: usize) -> Result<OpenedQueues, OpenError> {
    let Opened { medium, size_bytes, ring_allowed, mut notes } = open_medium(hold, options)?;
    let facts = medium.facts;
    let medium = Arc::new(medium);
    let (queues, way) = match options.calls {
        Calls::Ring { polled } if ring_allowed => open_rings(&medium, options, polled, count, &mut notes)?,
        Calls::Ring { .. } => {
            let way = format!("{} (io_uring switched off)", calls_name(false));
            (open_calls(&medium, options, false, count)?, way)
        }
        Calls::Sync { hipri } => {
            if hipri {
                notes.push("RWF_HIPRI does not poll on Linux 5.19 and later: use polled io_uring instead".to_owned());
            }
            (open_calls(&medium, options, hipri, count)?, calls_name(hipri).to_owned())
        }
    };
    let kind = if facts.block_device { "block device" } else { "file" };
    let cache = if facts.direct { "direct" } else { "through the page cache" };
    let dsync = if options.dsync { ", every write durable (RWF_DSYNC)" } else { "" };
    Ok(OpenedQueues {
        queues,
        size_bytes,
        logical_block_bytes: facts.block_bytes,
        description: format!("{kind}, {way}, {cache}{dsync}"),
        notes,
        block_device: facts.block_device,
    })
}

type Queues = Vec<Box<dyn Queue>>;

fn open_calls(medium: &Arc<Medium>, options: &QueueOptions, hipri: bool, count: usize) -> Result<Queues, OpenError> {
    let one = |_| {
        let arena = Arena::new(options.slots, options.buffer_bytes, true)?;
        Ok(Box::new(SyncQueue::new(Arc::clone(medium), arena, hipri, options.dsync)) as Box<dyn Queue>)
    };
    (0..count).map(one).collect()
}

/// Opens rings, or plain calls where the system forbids rings. Also returns the name of the means used.
fn open_rings(
    medium: &Arc<Medium>,
    options: &QueueOptions,
    polled: bool,
    count: usize,
    notes: &mut Vec<String>,
) -> Result<(Queues, String), OpenError> {
    let mut queues: Queues = Vec::with_capacity(count);
    let mut plain: Option<String> = None;
    for _ in 0..count {
        let arena = Arena::new(options.slots, options.buffer_bytes, true)?;
        match setup(medium, &arena, &preferences(options.wait), polled) {
            Ok(made) => {
                if plain.is_none() {
                    plain.clone_from(&made.buffers_refusal);
                }
                let queue = RingQueue::new(Arc::clone(medium), arena, made, polled, options.dsync);
                queues.push(Box::new(queue));
            }
            // Either all queues are rings or none is: the queues of one target must not differ.
            Err(refusal) => {
                let way = format!("{} (io_uring refused: {refusal})", calls_name(false));
                if options.slots > 1 || polled {
                    notes.push(format!("without io_uring one I/O a thread is in flight, not {}", options.slots));
                }
                return Ok((open_calls(medium, options, false, count)?, way));
            }
        }
    }
    let polled = if polled { ", polled" } else { "" };
    let way = match plain {
        None => format!("io_uring{polled}, registered buffers"),
        Some(refusal) => {
            notes.push(format!(
                "buffers could not be registered ({refusal}): raise the limit of locked memory (ulimit -l) for less CPU \
                 per I/O"
            ));
            format!("io_uring{polled}, plain buffers")
        }
    };
    Ok((queues, way))
}

pub(super) fn open_nbd(uri: &NbdUri, options: &QueueOptions, count: usize) -> Result<OpenedQueues, OpenError> {
    let failed = |source| OpenError::Nbd { uri: uri.to_string(), source };
    let mut queues: Queues = Vec::with_capacity(count);
    let mut info = crate::nbd_client::ExportInfo::default();
    for _ in 0..count {
        let (stream, export) = nbd::connect(uri).map_err(failed)?;
        if export.is_read_only() && !options.read_only {
            return Err(OpenError::ReadOnly { uri: uri.to_string() });
        }
        let arena = Arena::new(options.slots, options.buffer_bytes, true)?;
        info.clone_from(&export);
        queues.push(Box::new(NbdQueue::new(stream, export, arena, options.read_only, options.dsync)));
    }
    let mut notes = Vec::new();
    if count > 1 && !info.can_multi_conn() {
        notes.push(
            "the server does not promise that a flush on one connection covers what others have written \
             (NBD_FLAG_CAN_MULTI_CONN)"
                .to_owned(),
        );
    }
    let replies = if info.structured { "structured" } else { "simple" };
    let connections = if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") };
    Ok(OpenedQueues {
        queues,
        size_bytes: info.size_bytes,
        logical_block_bytes: info.block_sizes_bytes.map_or(512, |(least, _, _)| least.max(1)),
        description: format!("NBD over {}, {connections}, {replies} replies", uri.endpoint),
        notes,
        block_device: false,
    })
}

pub(super) fn open_shared(
    name: &str,
    handle: &Handle,
    options: &QueueOptions,
    count: usize,
) -> Result<OpenedQueues, OpenError> {
    let geometry = handle.geometry();
    let queue = |_| Ok(Box::new(DeviceQueue::new(handle, options)?) as Box<dyn Queue>);
    let queues = (0..count).map(queue).collect::<Result<Queues, OpenError>>()?;
    let way = if handle.is_synchronous() { "carried out in the calling thread" } else { "queued" };
    // Queues of concurrent jobs count, too.
    let sharing = handle.queues();
    let shared = if sharing > 1 { format!(", one lock shared by {sharing} queues") } else { String::new() };
    Ok(OpenedQueues {
        queues,
        size_bytes: geometry.size_bytes,
        logical_block_bytes: geometry.logical_block_bytes,
        description: format!("{name}, {way}{shared}"),
        notes: vec!["the target is part of this process: its time is the generator's too".to_owned()],
        block_device: false,
    })
}
