//! Roles and their keys: the names of singletons, and the 64-bit numbers that instances compete for.
//!
//! The set of role → key pairs is a deployment API. During a rolling deploy the old and the new binary
//! must compute the same key for the same role, or both lead. So a key is written down, never derived
//! from a name: a hash changes with a toolchain, and two names can share one.

use std::fmt;

/// A named singleton with a stable key.
///
/// Made in a `const`, so that a bad name doesn't compile:
///
/// ```
/// use tenure::Role;
/// const BILLING: Role = Role::new("billing", 1_840_000_100);
/// assert_eq!(BILLING.name(), "billing");
/// assert_eq!(BILLING.key(), 1_840_000_100);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role {
    name: &'static str,
    key: i64,
}

impl Role {
    /// The longest name, in bytes. It is a label in metrics and a column in the lease table.
    pub const MAX_NAME: usize = 63;

    /// A role with the advisory lock key `key`, which is never changed once deployed.
    ///
    /// # Panics
    ///
    /// When the name is empty, longer than [`Role::MAX_NAME`] bytes, or holds anything but lower-case
    /// ASCII letters, digits, `-` and `_`. In a `const` that is an error of the compiler.
    #[track_caller]
    pub const fn new(name: &'static str, key: i64) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= Self::MAX_NAME, "a role's name has 1 to 63 bytes");
        let mut i = 0;
        while i < bytes.len() {
            assert!(
                matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'),
                "a role's name holds only a-z, 0-9, - and _"
            );
            i += 1;
        }
        Self { name, key }
    }

    /// The name, as in logs, metrics and the lease table.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The key of the advisory lock.
    pub const fn key(&self) -> i64 {
        self.key
    }

    /// Whether two roles have the same name and the same key. `==`, for use in a `const`.
    pub const fn same(&self, other: &Self) -> bool {
        self.key == other.key && same_text(self.name, other.name)
    }

    /// Fails to compile, when used in a `const`, if two of the roles share a name or a key.
    ///
    /// [`workers!`](crate::workers) does this for every list of workers.
    ///
    /// ```compile_fail
    /// use tenure::Role;
    /// const A: Role = Role::new("a", 1);
    /// const B: Role = Role::new("b", 1);
    /// const _: () = Role::assert_distinct(&[A, B]);
    /// ```
    ///
    /// # Panics
    ///
    /// When two of the roles share a name or a key.
    #[track_caller]
    pub const fn assert_distinct(roles: &[Role]) {
        let mut i = 0;
        while i < roles.len() {
            let mut j = i + 1;
            while j < roles.len() {
                assert!(roles[i].key != roles[j].key, "two workers have the same key");
                assert!(!same_text(roles[i].name, roles[j].name), "two workers have the same name");
                j += 1;
            }
            i += 1;
        }
    }
}

const fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.key)
    }
}
