//! One row: a door in a variant, examined.

use super::{
    door::{Door, Lane},
    residue::{self, Residue},
    traffic::{Traffic, make_dirty, warm_up},
    underway::{self, Change},
};
use std::{fmt, time::Duration};
use tenure::{
    FrontDoor, LeaseAddress, Timing,
    front_door::{Step, Verdict, examine, examine_without},
};
use tokio::time::Instant;

/// What has to be said of a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A lease may be held through it.
    Accepted,
    /// It may not.
    Refused,
    /// It can't be told.
    Unreachable,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Expected::Accepted => "accepted",
            Expected::Refused => "refused",
            Expected::Unreachable => "unreachable",
        })
    }
}

/// What goes on at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody else is there, and nobody was.
    Cold,
    /// Nobody else is there, but somebody was: a pool has backends.
    Idle,
    /// Other clients are at work.
    Busy,
    /// Other clients have left settings, temporary tables and locks behind.
    Polluted,
    /// The door is accepted and led through, and then this happens.
    Underway(Change),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Cold => f.pad("cold"),
            State::Idle => f.pad("idle"),
            State::Busy => f.pad("busy"),
            State::Polluted => f.pad("polluted"),
            State::Underway(change) => change.fmt(f),
        }
    }
}

/// One row of the matrix.
#[derive(Debug, Clone)]
pub struct Row {
    /// The product, or what is imitated.
    pub name: &'static str,
    /// Its mode and settings.
    pub variant: String,
    /// How to make it.
    pub door: Door,
    /// What goes on there.
    pub state: State,
    /// What the operator declares.
    pub declared: FrontDoor,
    /// What has to be said.
    pub expected: Expected,
    /// The one step that refuses it.
    pub only: Option<Step>,
}

/// What was said of a row.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Expected,
    /// What decided: a step, or the heartbeat.
    pub decided: String,
    /// The evidence of the refusal.
    pub because: String,
    /// How long the examination took, or the loss after the change.
    pub took: Duration,
    /// What stayed behind.
    pub left: Residue,
}

impl Row {
    /// Name, variant and state in one line.
    pub fn title(&self) -> String {
        let declared = if self.declared == FrontDoor::SessionPooler { ", declared" } else { "" };
        format!("{}, {}, {}{declared}", self.name, self.variant, self.state)
    }

    /// Makes the door and examines it, in a lane of its own.
    ///
    /// # Panics
    ///
    /// When the door can't be made.
    pub async fn run(&self, lane: &Lane) -> Outcome {
        self.run_without(lane, None).await
    }

    /// The same, with one step of the examination left out.
    pub async fn run_without(&self, lane: &Lane, without: Option<Step>) -> Outcome {
        let open = self.door.open(lane).await;
        if let State::Underway(change) = self.state {
            return underway::run(change, self.declared, open).await;
        }
        if self.state == State::Polluted {
            make_dirty(&open).await;
        }
        let before = if self.state == State::Cold {
            // Nobody has been there yet, and looking behind the door would be the first visit.
            residue::outside(&open).await
        } else {
            let before = residue::residue(&open).await;
            warm_up(&open).await;
            before
        };
        let traffic = (self.state == State::Busy).then(|| Traffic::start(&open));
        let address = LeaseAddress::parse(&open.url, self.declared).expect("a URL");
        let began = Instant::now();
        let examination = match without {
            None => examine(&address, &Timing::default()).await,
            Some(step) => examine_without(step, &address, &Timing::default()).await,
        };
        let took = began.elapsed();
        if let Some(traffic) = traffic {
            traffic.stop().await;
        }
        let left = residue::since(&before, &open).await;
        let (verdict, decided, because) = match examination.verdict {
            Verdict::Accepted => (Expected::Accepted, "all".to_owned(), String::new()),
            Verdict::Refused { step, because, .. } => (Expected::Refused, step.to_string(), because),
            Verdict::Unreachable { because, .. } => {
                (Expected::Unreachable, Step::Connect.to_string(), because)
            }
        };
        Outcome { verdict, decided, because, took, left }
    }
}
