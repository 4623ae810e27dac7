//! One command's work on the live state: events are applied as they are decided, effects and accounting records collected.
//!
//! The shell appends [`Transaction::finish`]'s entry to the journal before it lets anybody know. A rejected command makes no
//! events; [`Transaction::run`] restores the state if one was rejected half-way, so a refusal changes nothing.

use serde::{Deserialize, Serialize};
use sluice_model::accounting::AccountingUpdate;
use sluice_model::launch::AgentOrder;
use sluice_model::time::UnixSeconds;

use crate::accounting_feed;
use crate::cluster::Cluster;
use crate::command::{Rejection, trigger};
use crate::effect::Effect;
use crate::event::{self, Event};

/// What the journal keeps of one command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Facts, in order.
    pub events: Vec<Event>,
    /// What accounting is to be told; read from the journal by the feed.
    #[serde(default)]
    pub accounting: Vec<AccountingUpdate>,
}

/// A command in progress.
pub struct Transaction<'a> {
    /// The live state.
    pub cluster: &'a mut Cluster,
    /// Time of the command.
    pub now: UnixSeconds,
    entry: JournalEntry,
    effects: Vec<Effect>,
}

impl<'a> Transaction<'a> {
    /// Begins a command.
    pub fn new(cluster: &'a mut Cluster, now: UnixSeconds) -> Self {
        Self {
            cluster,
            now,
            entry: JournalEntry::default(),
            effects: Vec::new(),
        }
    }

    /// Runs one command; on a rejection the state is as before and nothing is left to do.
    ///
    /// # Errors
    /// The command's own rejection.
    pub fn run<T>(
        cluster: &mut Cluster,
        now: UnixSeconds,
        command: impl FnOnce(&mut Transaction<'_>) -> Result<T, Rejection>,
    ) -> Result<(T, JournalEntry, Vec<Effect>), Rejection> {
        let before = cluster.clone();
        let mut transaction = Transaction::new(cluster, now);
        match command(&mut transaction) {
            Ok(value) => {
                let (entry, effects) = transaction.finish();
                Ok((value, entry, effects))
            }
            Err(rejection) => {
                *cluster = before;
                Err(rejection)
            }
        }
    }

    /// Records a fact: the state changes now, accounting is told later.
    pub fn emit(&mut self, event: Event) {
        let before = accounting_feed::before(self.cluster, &event);
        let watched = trigger::watch(self.cluster, &event);
        event::apply(self.cluster, &event);
        accounting_feed::collect(
            self.cluster,
            &event,
            before,
            self.now,
            &mut self.entry.accounting,
        );
        let followers = match &watched {
            Some(watched) => trigger::noticed(self.cluster, &event, watched, self.now),
            None => Vec::new(),
        };
        self.entry.events.push(event);
        followers.into_iter().for_each(|event| self.emit(event));
    }

    /// Asks the shell for something.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Sends an order to a node.
    pub fn order(&mut self, node: &str, order: AgentOrder) {
        self.effects.push(Effect::Order {
            node: node.to_owned(),
            order: Box::new(order),
        });
    }

    /// Asks for a scheduling pass.
    pub fn wake_planner(&mut self) {
        if !self.effects.contains(&Effect::WakePlanner) {
            self.effects.push(Effect::WakePlanner);
        }
    }

    /// Tells accounting which cluster this is. Makes no event: the state is not concerned.
    pub fn register_cluster(&mut self, control_host: String, control_port: u32) {
        let registration = accounting_feed::cluster_registration(
            self.cluster,
            self.now,
            control_host,
            control_port,
        );
        self.entry
            .accounting
            .push(AccountingUpdate::Cluster(registration));
    }

    /// Nothing has been recorded so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry.events.is_empty() && self.entry.accounting.is_empty()
    }

    /// Ends the command.
    #[must_use]
    pub fn finish(self) -> (JournalEntry, Vec<Effect>) {
        (self.entry, self.effects)
    }
}
