//! What to do about a refused front door, fitting what can be recognized of it.

use super::Step;
use crate::{LeaseAddress, postgres::problem};

/// Advice for a refusal at `step`. `version` is what the server calls itself, `because` what was seen.
pub(super) fn advise(address: &LeaseAddress, step: Step, version: Option<&str>, because: &str) -> String {
    if let Some(kind) = version.and_then(another_database) {
        return kind.to_owned();
    }
    let provider = provider(address.host(), address.port());
    let with_provider = |mut advice: String| {
        if let Some(hint) = provider {
            advice.push_str(". ");
            advice.push_str(hint);
        }
        advice
    };
    if step == Step::Role {
        let advice = "use the address of the primary, PostgreSQL 14 or newer, where writing is allowed";
        return with_provider(advice.to_owned());
    }
    if because.contains("exclude nobody") {
        return "the advisory locks here don't exclude: either they are stubs, or connections of this address \
                go to different servers; point database.lease_url at one PostgreSQL server itself"
            .to_owned();
    }
    let mut advice = with_provider(problem::POOLER.to_owned());
    if matches!(step, Step::Canary | Step::Age) {
        advice.push_str(
            ". If it is a pooler in session mode on purpose, declare it: lease.front_door = \"session-pooler\"",
        );
    }
    advice
}

/// Databases that speak the protocol. What `version()` says of them:
/// <https://www.cockroachlabs.com/docs/stable/functions-and-operators>,
/// <https://docs.yugabyte.com/stable/api/ysql/>.
fn another_database(version: &str) -> Option<&'static str> {
    if version.contains("CockroachDB") {
        return Some(
            "this is CockroachDB, whose advisory locks are stubs that always say yes: keep the leases in a \
             PostgreSQL database and point database.lease_url at it",
        );
    }
    version.contains("-YB-").then_some(
        "this is YugabyteDB, which was not tried: keep the leases in a PostgreSQL database and point \
         database.lease_url at it",
    )
}

/// Known addresses of poolers and readers. Where each is documented: `docs/front-doors`.
fn provider(host: &str, port: u16) -> Option<&'static str> {
    if host.contains("-pooler.") && host.ends_with(".neon.tech") {
        return Some("On Neon, take `-pooler` out of the host name");
    }
    if host.ends_with(".pooler.supabase.com") && port == 5432 {
        return Some(
            "On Supabase this is the pooler's session mode: declare it, or use the direct connection",
        );
    }
    if host.ends_with(".pooler.supabase.com") || (host.ends_with(".supabase.co") && port == 6543) {
        return Some("On Supabase, use the direct connection on port 5432");
    }
    if host.contains(".proxy-") && host.contains(".rds.amazonaws.com") {
        return Some("On RDS, use the instance's own endpoint instead of the proxy's");
    }
    if host.contains(".cluster-ro-") && host.contains(".rds.amazonaws.com") {
        return Some("On Aurora, use the cluster's writer endpoint instead of the reader's");
    }
    if host.ends_with(".postgres.database.azure.com") && port == 6432 {
        return Some("On Azure, PostgreSQL itself is on port 5432 of the same host");
    }
    (port == 6432 || port == 6543).then_some("The port is a pooler's usual one; PostgreSQL's own is 5432")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrontDoor;

    #[test]
    fn known_poolers_are_recognized_by_their_address() {
        for (host, port, word) in [
            ("ep-cool-1-pooler.eu-central-1.aws.neon.tech", 5432, "Neon"),
            ("aws-0-eu-central-1.pooler.supabase.com", 6543, "Supabase"),
            ("db.abc.supabase.co", 6543, "Supabase"),
            ("app.proxy-abc.eu-west-1.rds.amazonaws.com", 5432, "RDS"),
            ("aws-0-eu-central-1.pooler.supabase.com", 5432, "declare"),
            ("app.cluster-ro-abc.eu-west-1.rds.amazonaws.com", 5432, "writer"),
            ("app.postgres.database.azure.com", 6432, "5432"),
            ("10.0.0.5", 6432, "port"),
        ] {
            assert!(provider(host, port).is_some_and(|text| text.contains(word)), "{host}");
        }
        assert_eq!(provider("db.internal", 5432), None);
    }

    #[test]
    fn advice_fits_what_was_recognized() {
        let address = LeaseAddress::parse("postgres://me@db.internal/app", FrontDoor::Direct).unwrap();
        for (step, version, because, word) in [
            (Step::Exclusion, Some("CockroachDB CCL v24.1.0"), "", "CockroachDB"),
            (Step::Role, Some("PostgreSQL 15.2-YB-2025.1.0.0-b0"), "", "YugabyteDB"),
            (Step::Role, Some("PostgreSQL 15.18"), "in recovery", "primary"),
            (Step::Exclusion, None, "these locks exclude nobody", "stubs"),
            (Step::Canary, None, "", "session-pooler"),
            (Step::Stability, None, "", "pooler"),
        ] {
            let advice = advise(&address, step, version, because);
            assert!(advice.contains(word), "{step}: {advice}");
        }
    }
}
