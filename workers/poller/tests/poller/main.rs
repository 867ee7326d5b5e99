//! The poller on a real server.

mod failures;
mod http_route;
mod idle;
mod looping;
mod pooler;
mod sql_route;
mod support;
mod wire;
