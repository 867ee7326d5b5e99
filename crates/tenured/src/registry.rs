//! The one list of workers that this binary knows, and the only place that asks for features.

use crate::config::Settings;
#[cfg(not(all(feature = "poller", feature = "scheduler", feature = "reconciler")))]
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use sqlx::PgPool;

/// What a worker is made from.
#[derive(Debug)]
pub(crate) struct Context {
    /// The work pool.
    #[cfg_attr(
        not(any(feature = "poller", feature = "scheduler", feature = "reconciler")),
        expect(dead_code, reason = "read by the workers that are compiled in")
    )]
    pub(crate) pool: PgPool,
    /// The configuration, validated by [`validate`].
    #[cfg_attr(
        not(any(feature = "poller", feature = "scheduler", feature = "reconciler")),
        expect(dead_code, reason = "read by the workers that are compiled in")
    )]
    pub(crate) settings: Settings,
}

tenure::workers! {
    /// Every worker that this binary knows, compiled in or not.
    pub(crate) fn workers(context: &Context) {
        "poller" = 1_840_000_001, feature "poller", toggle "TENURE_POLLER_ENABLED" =>
            tenure_poller::Poller::new(context.pool.clone(), context.settings.poller.clone())
                .unwrap_or_else(|error| panic!("the poller can't be made: {error}"));
        "scheduler" = 1_840_000_002, feature "scheduler", toggle "TENURE_SCHEDULER_ENABLED" =>
            tenure_scheduler::Scheduler {
                pool: context.pool.clone(),
                config: context.settings.scheduler.clone(),
            };
        "reconciler" = 1_840_000_003, feature "reconciler", toggle "TENURE_RECONCILER_ENABLED" =>
            tenure_reconciler::Reconciler {
                pool: context.pool.clone(),
                config: context.settings.reconciler.clone(),
            };
    }
}

#[cfg(feature = "poller")]
pub(crate) type PollerSection = tenure_poller::PollerConfig;
#[cfg(not(feature = "poller"))]
pub(crate) type PollerSection = NotCompiled;

#[cfg(feature = "scheduler")]
pub(crate) type SchedulerSection = tenure_scheduler::SchedulerConfig;
#[cfg(not(feature = "scheduler"))]
pub(crate) type SchedulerSection = NotCompiled;

#[cfg(feature = "reconciler")]
pub(crate) type ReconcilerSection = tenure_reconciler::ReconcilerConfig;
#[cfg(not(feature = "reconciler"))]
pub(crate) type ReconcilerSection = NotCompiled;

/// The section of a worker that isn't compiled in: taken, since one file serves several binaries, and
/// not interpreted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg(not(all(feature = "poller", feature = "scheduler", feature = "reconciler")))]
pub(crate) struct NotCompiled {}

#[cfg(not(all(feature = "poller", feature = "scheduler", feature = "reconciler")))]
impl<'de> Deserialize<'de> for NotCompiled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| NotCompiled {})
    }
}

/// What is wrong with the workers' sections, as far as their workers are compiled in.
#[cfg(any(feature = "poller", feature = "scheduler", feature = "reconciler"))]
pub(crate) fn validate(settings: &Settings) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    #[cfg(feature = "poller")]
    errors.extend(settings.poller.validate().err().map(|error| error.to_string()));
    #[cfg(feature = "scheduler")]
    errors.extend(settings.scheduler.validate().iter().map(ToString::to_string));
    #[cfg(feature = "reconciler")]
    errors.extend(settings.reconciler.validate().iter().map(ToString::to_string));
    errors.sort();
    errors
}

/// Without a worker there is nothing to validate.
#[cfg(not(any(feature = "poller", feature = "scheduler", feature = "reconciler")))]
pub(crate) fn validate(_: &Settings) -> Vec<String> {
    Vec::new()
}
