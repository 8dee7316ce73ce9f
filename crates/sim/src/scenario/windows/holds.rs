//! Requests that are held back, so that a window stays open.

use crate::order::{Hold, Region, What};
use crate::scenario::kind::Kind;
use crate::scenario::pick::pick;
use forebay_block::Random;

fn hold(device: usize, what: What, region: Option<Region>, random: &mut Random) -> Hold {
    Hold {
        device,
        what,
        region,
        skip: random.below(40) as u32,
        count: pick(random, &[1, 1, 2, 8]),
        hold_ns: pick(random, &[200_000, 2_000_000, 20_000_000]),
        is_early: random.chance(1, 4),
    }
}

/// On which tier, what, and what for.
type Held = (bool, What, Option<Region>);

fn fast(what: What, region: Region) -> Held {
    (true, what, Some(region))
}

fn capacity(what: What, region: Region) -> Held {
    (false, what, Some(region))
}

/// What is held back in lives of a kind; each of these some times.
pub(super) fn holds(kind: Kind, random: &mut Random, devices: usize) -> Vec<Hold> {
    use Region::{Data, Header, Journal, Page, Root, Summary};
    use What::{Discard, Flush, Read, Write};
    let flush = |is_fast| (is_fast, Flush, None);
    let wanted = match kind {
        Kind::Overtaking => {
            vec![fast(Write, Journal), fast(Write, Journal), fast(Write, Data), capacity(Write, Data), flush(false)]
        }
        Kind::Reusing => {
            let page = fast(Read, Page);
            vec![page, page, page, fast(Write, Data), fast(Write, Data), fast(Read, Data)]
        }
        Kind::Rotting | Kind::Misreading => {
            vec![capacity(Read, Data), flush(false), capacity(Write, Data), fast(Write, Journal), fast(Write, Root)]
        }
        Kind::Growing => {
            vec![fast(Write, Root), fast(Write, Root), fast(Write, Header), fast(Write, Page), flush(true)]
        }
        Kind::Unmapping => {
            vec![capacity(Write, Data), flush(false), fast(Read, Page), fast(Write, Root), fast(Write, Header)]
        }
        _ => {
            let discard = (false, Discard, None);
            let (data, summary) = (capacity(Write, Data), capacity(Write, Summary));
            vec![fast(Write, Journal), fast(Write, Page), data, summary, flush(false), discard]
        }
    };
    let mut holds = Vec::new();
    for (is_fast, what, region) in wanted {
        for _ in 0..random.below(3) {
            let device = if is_fast { 0 } else { 1 + random.index(devices - 1) };
            holds.push(hold(device, what, region, random));
        }
    }
    holds
}
