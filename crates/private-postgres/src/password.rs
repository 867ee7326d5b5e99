//! The superuser's password, kept out of what is printed.

use std::fmt;

/// A password. Its `Debug` form doesn't show it.
#[derive(Clone)]
pub(crate) struct Password(String);

impl Password {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The password itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        assert_eq!(format!("{:?}", Some(Password::new("secret"))), "Some(***)");
    }
}
