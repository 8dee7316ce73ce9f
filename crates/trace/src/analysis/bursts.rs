//! How evenly requests arrive: the times between them, and rates over windows of several lengths.

use super::histogram::Histogram;

/// Lengths of the windows in nanoseconds.
pub const WINDOWS_NS: [u64; 5] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

/// Requests and bytes of the windows of one length.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Bytes of each window that has any.
    pub bytes: Histogram,
    /// Requests of each window that has any.
    pub requests: Histogram,
    /// End of the open window, as time since the first request.
    end_ns: u64,
    now_bytes: u64,
    now_requests: u64,
}

/// Times between requests, and bursts.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    /// Nanoseconds between consecutive requests.
    pub gaps_ns: Histogram,
    /// One entry for each length of [`WINDOWS_NS`].
    pub windows: [Window; WINDOWS_NS.len()],
    /// Times of the first and the last issue in nanoseconds; `None` without requests.
    pub span_ns: Option<(u64, u64)>,
    /// Bytes and requests since the shortest window was last closed, not yet added to the windows. All windows are multiples of the
    /// shortest, so none ends within it.
    not_counted: (u64, u64),
}

impl Bursts {
    /// Counts a request of `len_bytes` at `now_ns`; times must not go back.
    pub fn note(&mut self, now_ns: u64, len_bytes: u64) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((now_ns, now_ns));
        if self.span_ns.is_some() {
            self.gaps_ns.add(now_ns.saturating_sub(last_ns));
        }
        self.span_ns = Some((first_ns, now_ns));
        let passed_ns = now_ns - first_ns;
        if passed_ns >= self.windows[0].end_ns {
            self.count();
            for (window, len_ns) in self.windows.iter_mut().zip(WINDOWS_NS) {
                if passed_ns >= window.end_ns {
                    window.close();
                    window.end_ns = (passed_ns / len_ns + 1).saturating_mul(len_ns);
                }
            }
        }
        let (bytes, requests) = &mut self.not_counted;
        (*bytes, *requests) = (bytes.saturating_add(len_bytes), *requests + 1);
    }

    fn count(&mut self) {
        let (bytes, requests) = std::mem::take(&mut self.not_counted);
        for window in &mut self.windows {
            window.now_bytes = window.now_bytes.saturating_add(bytes);
            window.now_requests += requests;
        }
    }

    /// Closes all open windows.
    pub fn finish(&mut self) {
        self.count();
        self.windows.iter_mut().for_each(Window::close);
    }

    /// Nanoseconds from the first issue to the last.
    pub fn len_ns(&self) -> u64 {
        self.span_ns.map_or(0, |(first, last)| last - first)
    }
}

impl Window {
    fn close(&mut self) {
        if self.now_requests > 0 {
            self.bytes.add(self.now_bytes);
            self.requests.add(self.now_requests);
        }
        (self.now_bytes, self.now_requests) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_gaps() {
        let mut bursts = Bursts::default();
        for at_ns in [5, 10, 2_000_000, 2_000_000, 30_000_000_000] {
            bursts.note(at_ns, 4096);
        }
        bursts.finish();
        assert_eq!(bursts.gaps_ns.count(), 4.0);
        assert_eq!(bursts.len_ns(), 29_999_999_995);
        let counts: Vec<f64> = bursts.windows.iter().map(|window| window.requests.count()).collect();
        assert_eq!(counts, [3.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(bursts.windows[1].bytes.max(), 4 * 4096);
    }
}
