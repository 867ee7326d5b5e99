//! The matrix: every front door in every variant, what has to be said of it, and what is said.

mod catalog;
mod door;
mod residue;
mod row;
mod table;
mod traffic;
mod underway;

pub use catalog::rows;
pub use door::{Door, Lane, Open};
pub use residue::{Residue, residue};
pub use row::{Expected, Outcome, Row, State};
pub use table::{agrees, table};
pub use traffic::{make_dirty, warm_up};
