//! The queue poller: runs due jobs
