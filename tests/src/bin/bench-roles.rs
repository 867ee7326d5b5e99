//! What thousands of roles on one lease session cost: time to lead them all, a heartbeat, and memory.
//!
//! `bench-roles [ROLES …]`, by default 3, 300 and 5000, side by side in one run. For each number: a fresh
//! server; one instance in this process; the time from its start until all roles are led; 50 heartbeats
//! as the engine measures them itself (median, 99th percentile, worst); and what the process's resident
//! memory grew by. Compare columns of one run, not runs of different machines.

use std::{
    env, fs,
    sync::{Arc, Mutex},
    time::Duration,
};
use tenure::{
    FrontDoor, Instance, LeaseAddress, Role, StopMode, Term, Timing, TimingConfig, Worker, WorkerError,
    async_trait, schema,
};
use tenure_testkit::TestServer;
use tokio::time::Instant;
use uuid::Uuid;

const HEARTBEATS: usize = 50;

struct Idle(Role);

#[async_trait]
impl Worker for Idle {
    fn role(&self) -> Role {
        self.0
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        term.draining().await;
        Ok(())
    }
}

/// Keeps the samples of `tenure_heartbeat_seconds` and nothing else.
#[derive(Debug, Default, Clone)]
struct Heartbeats(Arc<Mutex<Vec<f64>>>);

impl metrics::Recorder for Heartbeats {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::noop()
    }
    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
    }
    fn register_histogram(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        if key.name() == "tenure_heartbeat_seconds" {
            metrics::Histogram::from_arc(Arc::new(self.clone()))
        } else {
            metrics::Histogram::noop()
        }
    }
}

impl metrics::HistogramFn for Heartbeats {
    fn record(&self, seconds: f64) {
        self.0.lock().expect("no sample panics").push(seconds);
    }
}

fn main() -> Result<(), WorkerError> {
    let heartbeats = Heartbeats::default();
    metrics::set_global_recorder(heartbeats.clone())?;
    let mut counts: Vec<u32> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    if counts.is_empty() {
        counts = vec![3, 300, 5000];
    }
    println!("roles   all led   heartbeat median       p99     worst   memory   memory/role");
    for roles in counts {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(measure(roles, &heartbeats))?;
    }
    Ok(())
}

async fn measure(roles: u32, heartbeats: &Heartbeats) -> Result<(), WorkerError> {
    // The stock lock table has about 64 × 100 slots.
    let server = TestServer::start();
    let pool = server.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await?;
    drop(pool);
    // The shortest interval that is in order with the default bounds, so that 50 heartbeats pass soon.
    let timing = Timing::new(TimingConfig {
        heartbeat_interval: Duration::from_millis(100),
        ..TimingConfig::default()
    })
    .map_err(|errors| format!("{errors:?}"))?;
    let before = resident();
    let begun = Instant::now();
    let mut builder = Instance::builder(LeaseAddress::parse(&server.url(), FrontDoor::Direct)?, timing);
    for index in 0..roles {
        // A role's name lives as long as the process.
        let name: &'static str = Box::leak(format!("role-{index}").into_boxed_str());
        builder = builder.worker(Idle(Role::new(name, 1_000_000 + i64::from(index))));
    }
    let mut instance = builder.start(Uuid::new_v4())?;
    let mut watch = instance.watch();
    while watch.snapshot().led().count() < usize::try_from(roles)? {
        watch.changed().await;
    }
    let all_led = begun.elapsed();
    heartbeats.0.lock().expect("no sample panics").clear();
    let mut samples = Vec::new();
    while samples.len() < HEARTBEATS {
        tokio::time::sleep(timing.heartbeat_interval()).await;
        samples.clone_from(&heartbeats.0.lock().expect("no sample panics"));
    }
    let grown = resident().saturating_sub(before);
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((samples.len() - 1) as f64 * share).round() as usize;
        format!("{:.2} ms", samples[index] * 1000.0)
    };
    println!(
        "{roles:>5} {:>9} {:>18} {:>9} {:>9} {:>5} KiB {:>9} B",
        format!("{:.2} s", all_led.as_secs_f64()),
        at(0.5),
        at(0.99),
        at(1.0),
        grown,
        grown * 1024 / u64::from(roles).max(1),
    );
    instance.stop(StopMode::AtOnce);
    instance.ended().await?;
    Ok(())
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or(0)
}
