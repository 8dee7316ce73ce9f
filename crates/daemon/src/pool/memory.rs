//! Shares the one memory limit out between engine, connections and evidence.

use crate::config::Config;
use forebay_export::{ServerConfig, SessionLimits};
use forebay_volume::{AdminError, EngineOptions};

/// The shares.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Memory of the engine, in bytes.
    pub engine_bytes: u64,
    /// Payload of all connections, in bytes.
    pub connections_bytes: u64,
    /// Facts of hosts' files, in bytes.
    pub evidence_bytes: u64,
}

impl Budget {
    /// Splits a limit: an eighth for connections and evidence together, of which evidence gets a quarter; the rest
    /// for the engine.
    pub fn of(limit_bytes: u64) -> Self {
        let evidence_bytes = limit_bytes / 32;
        let connections_bytes = limit_bytes / 8 - evidence_bytes;
        Self { engine_bytes: limit_bytes - limit_bytes / 8, connections_bytes, evidence_bytes }
    }

    /// The limit at which the engine's share has this size; the inverse of [`Self::of`].
    fn of_engine(engine_bytes: u64) -> u64 {
        engine_bytes.saturating_add(engine_bytes.div_ceil(7))
    }

    /// Advice where the engine needs a share of this size.
    pub fn advice(engine_bytes: u64) -> String {
        let limit_bytes = Self::of_engine(engine_bytes).next_multiple_of(1 << 20);
        format!("raise memory.limit to {} MiB or more, and start the server again", limit_bytes >> 20)
    }

    /// Explains why a change of a disk is refused, with advice where the memory limit is the reason.
    pub fn explain(error: &AdminError) -> String {
        match error {
            AdminError::Memory { needed_bytes, .. } => format!("{error}: {}", Self::advice(*needed_bytes)),
            error => error.to_string(),
        }
    }

    /// The limit at which a capacity tier that is opened alone has this much memory for its map, which may take three
    /// quarters of the engine's share.
    pub fn of_alone(map_bytes: u64) -> u64 {
        map_bytes.div_ceil(21).saturating_mul(32)
    }

    /// Options of the engine.
    pub fn engine(&self) -> EngineOptions {
        EngineOptions {
            memory_limit_bytes: self.engine_bytes,
            #[cfg(feature = "planted-faults")]
            faults: planted(),
            ..EngineOptions::default()
        }
    }

    /// Options of the export server.
    pub fn server(&self, config: &Config) -> ServerConfig {
        ServerConfig {
            session: self.session(),
            connections_max: config.connections_max(),
            poll_ns: config.poll_ns(),
            allow_remote: config.server.allow_remote,
            private_sockets: config.has_private_sockets(),
            ..ServerConfig::default()
        }
    }

    /// Sized so that the connections' share holds the requests in flight of 24 busy connections, or 3 of the longest
    /// requests. Beyond that, clients wait; memory grows only by a small amount per connection.
    fn session(&self) -> SessionLimits {
        SessionLimits {
            in_flight_bytes_max: (self.connections_bytes / 24).clamp(1 << 20, 64 << 20) as usize,
            payload_bytes_max: (self.connections_bytes / 3).clamp(8 << 20, 32 << 20) as u32,
            ..SessionLimits::default()
        }
    }
}

/// The faults named in the variable FOREBAY_PLANT, separated by commas.
#[cfg(feature = "planted-faults")]
fn planted() -> forebay_volume::engine::Faults {
    let text = std::env::var("FOREBAY_PLANT").unwrap_or_default();
    let named = |name: &str| text.split(',').any(|word| word == name);
    forebay_volume::engine::Faults {
        flush_is_no_op: named("flush_is_no_op"),
        checksums_ignored: named("checksums_ignored"),
        reuse_at_once: named("reuse_at_once"),
        epoch_not_fenced: named("epoch_not_fenced"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_evidence_takes_nothing_from_the_longest_request() {
        let session = |limit_bytes| Budget::of(limit_bytes).session();
        // The longest single read of libnbd.
        assert_eq!((session(1 << 30).payload_bytes_max, session(1 << 30).in_flight_bytes_max), (32 << 20, 4 << 20));
        assert_eq!(session(64 << 20).payload_bytes_max, 8 << 20);
    }

    #[test]
    fn the_limit_that_a_refusal_names_is_enough() {
        for map_bytes in [1, 20 << 20, 3 << 30] {
            let limit_bytes = Budget::of_alone(map_bytes).next_multiple_of(1 << 20);
            assert!(Budget::of(limit_bytes).engine().memory_limit_bytes / 4 * 3 >= map_bytes, "{map_bytes}");
            let limit_bytes = Budget::of_engine(map_bytes);
            assert!(Budget::of(limit_bytes).engine_bytes >= map_bytes, "{map_bytes}");
            assert!(Budget::of(limit_bytes - 1).engine_bytes <= map_bytes, "{map_bytes}");
        }
    }
}
