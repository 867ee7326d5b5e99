//! The scheduler: turns cron expressions into jobs, each tick once
