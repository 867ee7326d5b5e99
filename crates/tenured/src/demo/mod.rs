//! `tenured demo`.

use crate::{cli::Demo, exit::Failure};

pub(crate) async fn run(_options: &Demo) -> Result<(), Failure> {
    Err(Failure::Other("soon".to_owned()))
}
