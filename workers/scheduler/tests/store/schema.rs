//! The tables of the scheduler and the reconciler.

use crate::database::Database;

#[tokio::test]
async fn the_migrations_can_be_run_again_and_every_column_is_commented() {
    let db = Database::start().await;
    db.schedule("kept", "@daily", "now()").await;
    for migration in tenure_jobs::MIGRATIONS {
        db.run(migration.sql).await;
    }
    assert_eq!(db.number("select count(*) from tenure.schedule").await, 1);
    let uncommented = "select count(*) from pg_attribute a
        where attrelid in ('tenure.schedule'::regclass, 'tenure.tick'::regclass, 'tenure.sweep_run'::regclass)
          and attnum > 0 and not attisdropped and col_description(attrelid, attnum) is null";
    assert_eq!(db.number(uncommented).await, 0);
}
