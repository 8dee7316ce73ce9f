//! Finds the size from which more space gains little.

/// Smallest height of a knee above the line, as a share of the whole height.
const KNEE_MIN: f64 = 0.02;
/// The line continues to this multiple of the size at which nothing more can be gained, so that a curve that bends only there has its knee
/// there.
const BEYOND: f64 = 4.0;

/// Index of the knee of a curve of sizes (ascending) and gains: the point farthest above the line from the first to the last point, over
/// the logarithm of the size (Satopaa et al. 2011, "Kneedle"). `None` if there is no knee.
pub(super) fn knee(curve: &[(u64, f64)]) -> Option<usize> {
    let (first, last) = (curve.first()?, curve.last()?);
    let octaves = |bytes: f64| (bytes / first.0 as f64).ln();
    let (width, height) = (octaves(last.0 as f64 * BEYOND), last.1 - first.1);
    if width <= 0.0 || height <= 0.0 {
        return None;
    }
    let above = |(bytes, bought): &(u64, f64)| (bought - first.1) / height - octaves(*bytes as f64) / width;
    let (best, point) = curve.iter().enumerate().max_by(|(_, a), (_, b)| above(a).total_cmp(&above(b)))?;
    (above(point) > KNEE_MIN).then_some(best)
}
