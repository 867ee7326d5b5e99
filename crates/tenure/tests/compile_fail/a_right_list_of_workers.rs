use tenure::{Role, Singleton, Term, WorkerError, async_trait};

struct Worker;

#[async_trait]
impl Singleton for Worker {
    const ROLE: Role = Role::new("billing", 1_840_000_100);

    async fn run(&self, _: Term) -> Result<(), WorkerError> {
        Ok(())
    }
}

tenure::workers! {
    fn workers(context: &()) {
        "billing" = 1_840_000_100, toggle "BILLING_ENABLED" => Worker;
    }
}

fn main() {
    let _declarations = workers();
}
