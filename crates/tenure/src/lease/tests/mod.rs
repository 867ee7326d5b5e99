//! The engine's policy on paused time, without a database.

mod fake;
mod many;
mod one;
