//! What the demo tells its reader: who leads, who took over, and how fast.

use super::{Line, scene::Counts};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// What was seen so far.
pub(super) struct Show {
    begun: Instant,
    leaders: BTreeMap<String, Leader>,
    /// Roles whose leader was killed, and when.
    orphans: BTreeMap<String, Instant>,
    hand_overs: Vec<Duration>,
}

struct Leader {
    replica: &'static str,
    epoch: i64,
    since: Instant,
}

impl Show {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            leaders: BTreeMap::new(),
            orphans: BTreeMap::new(),
            hand_overs: Vec::new(),
        }
    }

    /// A line with the time since the demo began.
    pub(super) fn say(&self, text: &str) {
        say!("{:>6.1}s  {text}", self.begun.elapsed().as_secs_f64());
    }

    /// Tells of an event, if it is worth it.
    pub(super) fn note(&mut self, line: &Line) {
        let text = |field: &str| line.fields[field].as_str().unwrap_or_default();
        let (who, role) = (line.replica, text("role"));
        match text("event") {
            "lease.acquired" => {
                let epoch = line.fields["epoch"].as_i64().unwrap_or_default();
                let after = self.orphans.remove(role).map(|killed| line.at.saturating_duration_since(killed));
                match after {
                    Some(gap) => {
                        self.hand_overs.push(gap);
                        self.say(&format!(
                            "{who} leads {role}, {} ms after the kill (epoch {epoch})",
                            gap.as_millis()
                        ));
                    }
                    None => self.say(&format!("{who} leads {role} (epoch {epoch})")),
                }
                let leader = Leader { replica: who, epoch, since: line.at };
                self.leaders.insert(role.to_owned(), leader);
            }
            "lease.lost" => self.say(&format!("{who} lost {role}: {}", text("reason"))),
            "lease.released" if self.leaders.get(role).is_some_and(|leader| leader.replica == who) => {
                self.leaders.remove(role);
            }
            "frontdoor.refused" | "lease.error" | "lease.refused" => {
                self.say(&format!("{who}: {} {}", text("event"), line.fields));
            }
            _ => {}
        }
    }

    /// A role that is led, and by whom; another one each turn.
    pub(super) fn leader(&self, turn: usize) -> Option<(String, &'static str)> {
        let count = self.leaders.len();
        self.leaders.iter().nth(turn.checked_rem(count)?).map(|(role, leader)| (role.clone(), leader.replica))
    }

    /// A replica was killed: all that it led is without a leader.
    pub(super) fn killed(&mut self, replica: &'static str, pid: u32, role: &str) {
        self.say(&format!("kill -9 {replica} (pid {pid}), the leader of {role}"));
        let now = Instant::now();
        let led: Vec<String> = self
            .leaders
            .iter()
            .filter(|(_, leader)| leader.replica == replica)
            .map(|(role, _)| role.clone())
            .collect();
        for role in led {
            self.leaders.remove(&role);
            self.orphans.insert(role, now);
        }
    }

    /// Who leads what, and what was done.
    pub(super) fn table(&self, counts: &Counts) {
        say!("");
        say!("         role        leader  epoch         since");
        for (role, leader) in &self.leaders {
            say!(
                "         {role:<11} {:<7} {:<13} {:.1} s",
                leader.replica,
                leader.epoch,
                leader.since.elapsed().as_secs_f64()
            );
        }
        for role in self.orphans.keys() {
            say!("         {role:<11} nobody");
        }
        let Counts { done, doubled, waiting, ticks, swept } = counts;
        say!(
            "         jobs done {done}, done twice {doubled}, waiting {waiting}; ticks fired {ticks}; old rows swept {swept}\n"
        );
    }

    /// What happened altogether.
    pub(super) fn summary(&self, counts: &Counts) {
        let mut gaps = self.hand_overs.clone();
        gaps.sort();
        let hand_overs = match gaps.len() {
            0 => "no leader was killed".to_owned(),
            n => format!("{n} hand-overs after kill -9, median {} ms", gaps[n / 2].as_millis()),
        };
        let Counts { done, doubled, ticks, swept, .. } = counts;
        say!(
            "\nsummary: {hand_overs}; {done} jobs done, {doubled} done twice; {ticks} ticks fired; {swept} old rows swept"
        );
    }
}
