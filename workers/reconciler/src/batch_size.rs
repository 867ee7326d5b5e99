//! How many rows the next batch takes: fewer when the last was slow, more when it was fast.

use std::time::Duration;

/// The smallest batch: one row.
pub const SMALLEST: u32 = 1;

/// The largest batch, in rows. A batch is a transaction, and its locks last as long as it does.
pub const LARGEST: u32 = 10_000;

/// How a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It was committed after so long at the server.
    Took(Duration),
    /// It met the statement timeout. Nothing was deleted.
    TooSlow,
    /// It met the lock timeout. Nothing was deleted.
    Locked,
}

/// The size of the batch after one of `current` rows that went at `pace`.
///
/// A batch should take about a quarter of `statement_timeout`: far enough from it that a slower minute
/// doesn't hit it, and long enough that the pauses don't dominate.
pub fn next_batch_size(current: u32, pace: Pace, statement_timeout: Duration) -> u32 {
    let target = statement_timeout / 4;
    let next = match pace {
        // Each try costs a whole timeout, so go down fast: from the largest to one row in seven tries.
        Pace::TooSlow => current / 4,
        // Fewer rows meet fewer locks.
        Pace::Locked => current / 2,
        Pace::Took(time) if time > target => current - current / 4,
        Pace::Took(time) if time < target / 2 => current.saturating_mul(2),
        Pace::Took(_) => current,
    };
    next.clamp(SMALLEST, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMEOUT: Duration = Duration::from_secs(2);

    #[test]
    fn a_batch_that_always_meets_the_timeout_soon_is_one_row() {
        let sizes = std::iter::successors(Some(LARGEST), |size| {
            (*size > SMALLEST).then(|| next_batch_size(*size, Pace::TooSlow, TIMEOUT))
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [10_000, 2_500, 625, 156, 39, 9, 2, 1]);
    }

    #[test]
    fn a_fast_batch_grows_and_a_good_one_stays() {
        assert_eq!(next_batch_size(100, Pace::Took(Duration::from_millis(10)), TIMEOUT), 200);
        assert_eq!(next_batch_size(100, Pace::Took(Duration::from_millis(400)), TIMEOUT), 100);
        assert_eq!(next_batch_size(100, Pace::Took(Duration::from_millis(900)), TIMEOUT), 75);
        assert_eq!(next_batch_size(1, Pace::Took(Duration::ZERO), TIMEOUT), 2, "it recovers from one row");
    }

    proptest! {
        #[test]
        fn the_size_stays_in_bounds_and_moves_in_the_right_direction(
            current in SMALLEST..=LARGEST, millis in 0_u64..10_000
        ) {
            let after = |pace| next_batch_size(current, pace, TIMEOUT);
            let took = after(Pace::Took(Duration::from_millis(millis)));
            for size in [took, after(Pace::TooSlow), after(Pace::Locked)] {
                prop_assert!((SMALLEST..=LARGEST).contains(&size));
            }
            prop_assert!(after(Pace::TooSlow) < current || current == SMALLEST);
            prop_assert!(after(Pace::Locked) < current || current == SMALLEST);
            if millis > 500 { prop_assert!(took <= current) } else { prop_assert!(took >= current) }
        }
    }
}
