//! End-to-end tests: real processes, a real server, real faults.
//!
//! The process under test is [`witness`](../witness/index.html): a small service of its own that leads
//! some roles and writes down every act.

pub mod acts;
pub mod cluster;
