//! Measurement that can be believed: load in closed and open loop, every latency counted, percentiles with intervals (withheld with too few
//! samples), steady states, spec sheets, statistics over runs.
#![forbid(unsafe_code)]

pub mod application;
pub mod data;
pub mod experiment;
pub mod job;
pub mod output;
pub mod pattern;
pub mod replay;
pub mod run;
pub mod spec;
pub mod stats;
pub mod telemetry;
