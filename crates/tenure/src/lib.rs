//! Leader-only background workers, elected through PostgreSQL advisory locks
