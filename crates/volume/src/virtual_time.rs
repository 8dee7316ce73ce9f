//! Devices in virtual time, side by side.

use forebay_block::Device;

/// In virtual time: lets everything happen in devices up to and including a time, but no further than to the first end of a request. Returns the time
/// of that end.
pub(crate) fn advance<D>(
    list: &mut [D],
    device_of: impl Fn(&mut D) -> Option<&mut Box<dyn Device>>,
    to_ns: u64,
) -> Option<u64> {
    loop {
        // No device may pass another's next event: what ends there may lead to a request to it.
        let (mut first, mut first_ns, mut second_ns) = (None, u64::MAX, u64::MAX);
        for device in list.iter_mut().filter_map(&device_of) {
            let next_ns = device.next_event_ns();
            if next_ns < first_ns {
                second_ns = first_ns;
                (first, first_ns) = (Some(device), next_ns);
            } else {
                second_ns = second_ns.min(next_ns);
            }
        }
        let device = first.filter(|_| first_ns <= to_ns)?;
        if let Some(ended_ns) = device.advance(to_ns.min(second_ns)) {
            return Some(ended_ns);
        }
    }
}
