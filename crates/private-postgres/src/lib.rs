//! Starts a private PostgreSQL server from the binaries on the machine, and leaves nothing behind
