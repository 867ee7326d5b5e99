//! The job store on a real server.

mod claiming;
mod ending;
mod enqueueing;
mod operating;
mod support;
