//! The metrics of this process, described for those who read them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

/// Bounds of the histogram of heartbeats, in seconds.
const HEARTBEAT: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Bounds of the histogram of jobs, in seconds.
const JOB: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];
/// How often old samples of histograms are folded together.
const UPKEEP: Duration = Duration::from_secs(5);

/// Begins to count. The handle renders everything as Prometheus text.
pub(crate) fn start() -> Result<PrometheusHandle, String> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("tenure_heartbeat_seconds".to_owned()), HEARTBEAT)
        .and_then(|b| b.set_buckets_for_metric(Matcher::Suffix("duration_seconds".to_owned()), JOB))
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| format!("the metrics recorder: {error}"))?;
    describe();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

fn describe() {
    describe_gauge!("tenure_leader", "1 while this instance leads the role");
    describe_gauge!("tenure_term_epoch", "Epoch of this instance's newest term of the role");
    describe_gauge!("tenure_worker_gate", "1 for each worker, with its two gates as labels");
    describe_gauge!("tenure_frontdoor_accepted", "1 when the last examination accepted the front door");
    describe_histogram!("tenure_heartbeat_seconds", Unit::Seconds, "Time of a successful heartbeat");
    describe_gauge!("tenure_trust_remaining_seconds", Unit::Seconds, "Time until leaders stop by themselves");
    describe_counter!("tenure_lease_acquired_total", "Terms that began");
    describe_counter!("tenure_lease_lost_total", "Terms that were lost, by reason");
    describe_counter!("tenure_jobs_completed_total", "Jobs that were completed, by kind");
    describe_counter!("tenure_jobs_failed_total", "Attempts that failed and will be repeated, by kind");
    describe_counter!("tenure_jobs_discarded_total", "Jobs that were given up, by kind");
    describe_histogram!("tenure_jobs_duration_seconds", Unit::Seconds, "Time of an attempt, by kind");
    describe_counter!("tenure_schedule_ticks_total", "Ticks, by schedule and outcome");
    describe_counter!("tenure_sweep_deleted_total", "Rows that were deleted, by sweep");
    describe_gauge!("tenure_sweep_debt_rows", "Rows past their retention that are left, by sweep");
}
