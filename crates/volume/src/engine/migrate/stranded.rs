//! Places in bands to which recorded moves lead that could not be applied, as their leaf could not be read. Recovery may be able to read it and then maps the blocks
//! there, so nobody else gets these places while a start would replay the records.

/// Most places; what is beyond is settled by the next start.
const PLACES_MAX: usize = 65_536;

/// The places of jobs that have ended.
#[derive(Debug, Default)]
pub(crate) struct Stranded {
    /// Since the map was frozen last.
    newer: Vec<u64>,
    /// From before that: no start replays their records once the checkpoint is durable, or a later one.
    frozen: Vec<u64>,
}

impl Stranded {
    /// A job has ended that had to pass over these places.
    pub(super) fn add(&mut self, places: Vec<u64>) {
        if self.newer.len() + self.frozen.len() + places.len() <= PLACES_MAX {
            self.newer.extend(places);
        }
    }

    /// Whether there are none: otherwise a checkpoint would free places.
    pub fn is_empty(&self) -> bool {
        self.newer.is_empty() && self.frozen.is_empty()
    }

    /// The map is frozen.
    pub fn freeze(&mut self) {
        self.frozen.append(&mut self.newer);
    }

    /// The checkpoint is durable: returns the places that others may have.
    pub fn root_durable(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_wait_for_a_checkpoint_that_began_behind_their_job() {
        let mut stranded = Stranded::default();
        stranded.add(vec![1]);
        assert_eq!(stranded.root_durable(), [0; 0], "the map was frozen before");
        stranded.freeze();
        stranded.add(vec![2]);
        // That checkpoint was given up.
        stranded.freeze();
        stranded.add(vec![3]);
        assert_eq!(stranded.root_durable(), [1, 2]);
        assert!(!stranded.is_empty());
        assert_eq!(stranded.root_durable(), [0; 0]);
        stranded.add(vec![0; PLACES_MAX]);
        stranded.freeze();
        assert_eq!(stranded.root_durable(), [3], "more than there is room for");
        assert!(stranded.is_empty());
    }
}
