//! What to do about a refused front door, fitting what can be recognized of it.

use super::Step;
use crate::{LeaseAddress, postgres::problem};

/// Advice for a refusal at `step`.
pub(super) fn advise(address: &LeaseAddress, step: Step) -> String {
    match step {
        Step::Role => "use the address of the primary, PostgreSQL 14 or newer".to_owned(),
        Step::Connect | Step::Canary | Step::Age | Step::Stability | Step::Exclusion => {
            let mut advice = problem::POOLER.to_owned();
            if let Some(hint) = provider(address.host(), address.port()) {
                advice.push_str(". ");
                advice.push_str(hint);
            }
            if matches!(step, Step::Canary | Step::Age) {
                advice.push_str(
                    ". If it is a pooler in session mode on purpose, declare it: \
                     lease.front_door = \"session-pooler\"",
                );
            }
            advice
        }
    }
}

/// Known addresses of poolers: <https://neon.com/docs/connect/connection-pooling>,
/// <https://supabase.com/docs/guides/database/connecting-to-postgres>.
fn provider(host: &str, port: u16) -> Option<&'static str> {
    if host.contains("-pooler.") && host.ends_with(".neon.tech") {
        return Some("On Neon, take `-pooler` out of the host name");
    }
    if host.contains("pooler.supabase.com") || (host.ends_with(".supabase.co") && port == 6543) {
        return Some("On Supabase, use the direct connection on port 5432");
    }
    if host.contains(".proxy-") && host.contains(".rds.amazonaws.com") {
        return Some("On RDS, use the instance's own endpoint instead of the proxy's");
    }
    (port == 6432 || port == 6543).then_some("The port is a pooler's usual one; PostgreSQL's own is 5432")
}

#[cfg(test)]
mod tests {
    use super::provider;

    #[test]
    fn known_poolers_are_recognized_by_their_address() {
        for (host, port, word) in [
            ("ep-cool-1-pooler.eu-central-1.aws.neon.tech", 5432, "Neon"),
            ("aws-0-eu-central-1.pooler.supabase.com", 6543, "Supabase"),
            ("db.abc.supabase.co", 6543, "Supabase"),
            ("app.proxy-abc.eu-west-1.rds.amazonaws.com", 5432, "RDS"),
            ("10.0.0.5", 6432, "port"),
        ] {
            assert!(provider(host, port).is_some_and(|text| text.contains(word)), "{host}");
        }
        assert_eq!(provider("db.internal", 5432), None);
    }
}
