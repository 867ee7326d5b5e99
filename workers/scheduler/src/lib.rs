//! The scheduler: turns cron expressions into jobs, each tick once

pub mod dst;
pub mod expression;
pub mod misfire;
pub mod plan;
pub mod timetable;
