//! Cross-crate and end-to-end tests
