//! The clock that trust is measured with.
//!
//! It counts the time that the machine spent suspended, because the server's bound goes on meanwhile:
//! a laptop lid or a paused virtual machine must not leave a leader with trust that the server has
//! long withdrawn. Every decision takes its time from a [`Clock`]; reading another clock is a lint error.

use std::{fmt, ops::Add, sync::Arc, time::Duration};

/// A point on the boot-time clock of this machine. It means nothing on another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `since_boot` after the clock's zero.
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Time since the clock's zero.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, rhs: Duration) -> Moment {
        Moment(self.0.saturating_add(rhs))
    }
}

/// Tells what time it is, suspended time included.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present moment. It never goes back.
    fn now(&self) -> Moment;
}

/// A clock that parts of one instance share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's boot-time clock: `CLOCK_BOOTTIME` on Linux; elsewhere the monotonic clock, which
/// counts suspended time on macOS.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        #[cfg(target_os = "linux")]
        let id = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let id = rustix::time::ClockId::Monotonic;
        let t = rustix::time::clock_gettime(id);
        let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(t.tv_nsec).unwrap_or(0);
        Moment(Duration::new(seconds, nanos))
    }
}
