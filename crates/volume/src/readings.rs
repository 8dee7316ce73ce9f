//! Where something is read, and the result of reading it in every way that there is.

use forebay_block::{Buf, Completion, IoError, Op, Vectored};

/// Where something lies: the number of the device, offset and length in bytes.
pub(crate) type Place = (usize, u64, usize);

/// The result of reading in every way.
pub(crate) enum Reading {
    /// The right bytes.
    Good(Buf),
    /// It can be read, but is wrong in every way: what was read first.
    Bad(Buf),
    /// It cannot be read.
    Failed(IoError),
}

impl Reading {
    /// The bytes, where they are right.
    pub(crate) fn good(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) => Some(bytes),
            Self::Bad(_) | Self::Failed(_) => None,
        }
    }

    /// The bytes, right or wrong.
    pub(crate) fn any(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) | Self::Bad(bytes) => Some(bytes),
            Self::Failed(_) => None,
        }
    }
}

/// Most bytes of neighbours that are read together.
const TOGETHER_MAX_BYTES: u64 = 1 << 20;

/// Places on a capacity device that touch or overlap, to be read with one request: a bucket takes as long for 4 KiB as for 1 MiB, and bills each
/// request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// From the first byte to the last.
    whole: Place,
    /// Their numbers among all places.
    numbers: Vec<usize>,
}

impl Neighbours {
    /// The neighbours among some places. Those without any are left out, and those of the fast device, whose copies are read each for itself.
    pub(crate) fn among(places: &[Place]) -> Vec<Self> {
        let mut order: Vec<usize> = (0..places.len()).filter(|&number| places[number].0 > 0).collect();
        order.sort_by_key(|&number| places[number]);
        let mut all: Vec<Self> = Vec::new();
        for number in order {
            let (device, offset_bytes, len_bytes) = places[number];
            match all.last_mut().map(|last| (last.whole, last)) {
                Some(((of, begin, len), last))
                    if of == device
                        && offset_bytes <= begin + len as u64
                        && offset_bytes - begin + len_bytes as u64 <= TOGETHER_MAX_BYTES =>
                {
                    last.whole.2 = len.max((offset_bytes - begin) as usize + len_bytes);
                    last.numbers.push(number);
                }
                _ => all.push(Self { whole: places[number], numbers: vec![number] }),
            }
        }
        all.retain(|neighbours| neighbours.numbers.len() > 1);
        all
    }

    /// The request that reads them: device, offset and operation.
    pub(crate) fn read(&self) -> (usize, u64, Op) {
        let (device, offset_bytes, len_bytes) = self.whole;
        (device, offset_bytes, Op::Read { bufs: Vectored::One(Buf::new(len_bytes)), attempt: 0 })
    }

    /// Puts those that are good into `found`. Where the request failed none is: each will be read for itself.
    pub(crate) fn judge(
        self,
        ended: Completion,
        places: &[Place],
        is_good: &mut impl FnMut(usize, &[u8]) -> bool,
        found: &mut [Reading],
    ) {
        let Some(bytes) = good(ended.result, ended.bufs) else { return };
        for number in self.numbers {
            let (_, offset_bytes, len_bytes) = places[number];
            let begin = (offset_bytes - self.whole.1) as usize;
            let of_it = &bytes[begin..begin + len_bytes];
            if is_good(number, of_it) {
                found[number] = Reading::Good(Buf::copy_of(of_it));
            }
        }
    }
}

/// The bytes of a successful read. The buffer of a failed one holds whatever its memory held before, which may be the same block from another read.
pub(crate) fn good(result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) -> Option<Buf> {
    result.ok().and_then(|()| single(bufs))
}

/// The single buffer of a read completion.
pub(crate) fn single(bufs: Option<Vectored<Buf>>) -> Option<Buf> {
    match bufs {
        Some(Vectored::One(buf)) => Some(buf),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_places_of_one_capacity_device_that_touch_or_overlap() {
        let far = 1 << 30;
        let places = [
            (1, 8192, 4096),
            (2, 8192, 4096),
            (1, 0, 4096),
            (0, 0, 4096),
            (1, 4096, 4096),
            (0, 4096, 4096),
            (1, far, 1536),
            (1, far + 1024, 512),
            (1, 16_384, 4096),
        ];
        let found = Neighbours::among(&places);
        let expected = [((1, 0, 12_288), vec![2, 4, 0]), ((1, far, 1536), vec![6, 7])];
        assert!(found.iter().map(|all| (all.whole, all.numbers.clone())).eq(expected));
    }

    #[test]
    fn neighbours_are_read_a_mebibyte_at_a_time() {
        let places: Vec<Place> = (0..1000).map(|block| (1, block * 4096, 4096)).collect();
        let lens = Neighbours::among(&places).into_iter().map(|all| (all.whole.2, all.numbers.len()));
        assert!(lens.eq([(1 << 20, 256), (1 << 20, 256), (1 << 20, 256), (232 * 4096, 232)]));
    }
}
