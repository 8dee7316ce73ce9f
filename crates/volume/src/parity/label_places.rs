//! The two places of a member's label.

/// What lies in the two places of a member's label.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabelPlaces {
    /// The place that the next label does not go to, so that a power cut while it is written leaves what is here.
    newest: usize,
    /// Whether each of them is known to have a label of the member.
    held: [bool; 2],
}

impl LabelPlaces {
    /// Of a device without a label.
    pub const BLANK: Self = Self { newest: 1, held: [false; 2] };

    /// The newest label of the member is here.
    pub fn labelled(newest: usize) -> Self {
        let mut places = Self { newest, ..Self::BLANK };
        places.held[newest] = true;
        places
    }

    /// The same where the labels are of what the device was before, as its member has another id from now on.
    pub fn forgotten(self) -> Self {
        Self { held: [false; 2], ..self }
    }

    /// Where the next label goes: where it cannot be written there for good (`is_last`), over the newest one.
    pub fn next(&self, is_last: bool) -> usize {
        if is_last { self.newest } else { 1 - self.newest }
    }

    /// A label was written here, durably.
    pub fn written(&mut self, to: usize) {
        self.newest = to;
        self.held[to] = true;
    }

    /// The places that have labels of the member.
    pub fn held(&self) -> impl Iterator<Item = usize> {
        (0..2).filter(|&place| self.held[place])
    }
}
