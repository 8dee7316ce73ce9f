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

/// What is held back in lives of a kind; each of these some times.
pub(super) fn holds(kind: Kind, random: &mut Random, devices: usize) -> Vec<Hold> {
    use Region::{Data, Header, Journal, Page, Root, Summary};
    use What::{Discard, Flush, Read, Write};
    let wanted: &[(bool, What, Option<Region>)] = match kind {
        Kind::Overtaking => &[
            (true, Write, Some(Journal)),
            (true, Write, Some(Journal)),
            (true, Write, Some(Data)),
            (false, Write, Some(Data)),
            (false, Flush, None),
        ],
        Kind::Reusing => &[
            (true, Read, Some(Page)),
            (true, Read, Some(Page)),
            (true, Read, Some(Page)),
            (true, Write, Some(Data)),
            (true, Write, Some(Data)),
            (true, Read, Some(Data)),
        ],
        Kind::Rotting | Kind::Misreading => &[
            (false, Read, Some(Data)),
            (false, Flush, None),
            (false, Write, Some(Data)),
            (true, Write, Some(Journal)),
            (true, Write, Some(Root)),
        ],
        Kind::Growing => &[
            (true, Write, Some(Root)),
            (true, Write, Some(Root)),
            (true, Write, Some(Header)),
            (true, Write, Some(Page)),
            (true, Flush, None),
        ],
        Kind::Unmapping => &[
            (false, Write, Some(Data)),
            (false, Flush, None),
            (true, Read, Some(Page)),
            (true, Write, Some(Root)),
            (true, Write, Some(Header)),
        ],
        _ => &[
            (true, Write, Some(Journal)),
            (true, Write, Some(Page)),
            (false, Write, Some(Data)),
            (false, Write, Some(Summary)),
            (false, Flush, None),
            (false, Discard, None),
        ],
    };
    let mut holds = Vec::new();
    for &(is_fast, what, region) in wanted {
        for _ in 0..random.below(3) {
            let device = if is_fast { 0 } else { 1 + random.index(devices - 1) };
            holds.push(hold(device, what, region, random));
        }
    }
    holds
}
