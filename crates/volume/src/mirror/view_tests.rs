use super::*;

/// The clock stepped back by an hour just after a member of an array was lost: the array waited for it to catch up, and answered nothing meanwhile.
#[test]
fn regression_nobody_waits_for_a_clock_that_stepped_back() {
    let geometry = Geometry {
        size_bytes: 1 << 20,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: false,
        durable_writes: true,
        discards: false,
    };
    let status = MirrorStatus {
        members: Vec::new(),
        generation: 1,
        rebuilt_bytes: 0,
        size_bytes: 1 << 20,
        mended_blocks: 0,
        unreadable_blocks: 0,
        broken: None,
    };
    let view = MirrorView::new(status, [1; 16], geometry);
    let times = [5_000, 5_007, 1_000, 1_004, 1_004].map(|shown_ns| {
        view.tick(shown_ns);
        view.now_ns()
    });
    assert_eq!(times, [5_000, 5_007, 5_007, 5_011, 5_011]);
}
