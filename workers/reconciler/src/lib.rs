//! The reconciler: returns dead attempts to the queue and sweeps tables past their retention
