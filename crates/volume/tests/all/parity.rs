//! A capacity tier with parity, as a device: whatever members do, as far as there is parity for it, what was written and flushed is read.

mod life;
mod member;
