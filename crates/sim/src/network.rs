//! Links between agents and the controller: messages keep their order on a link, arrive late, and are lost when it breaks.
//!
//! Of what was under way towards the controller when a link broke some may still be read from its buffers; towards the agent
//! nothing counts any more, because an agent ignores what an old link delivers.

use std::collections::BTreeMap;

use sluice_model::launch::{AgentOrder, ReportEnvelope};

use crate::world::{Happening, World};

/// One connection of an agent.
#[derive(Debug)]
pub struct Link {
    /// Node.
    pub node: usize,
    /// Life of the controller it leads to.
    pub controller: u64,
    /// When it broke.
    pub broken: Option<u64>,
    /// Until then the controller may read what was sent before.
    readable_until: u64,
    up_free: u64,
    down_free: u64,
    /// The registration has arrived.
    pub registered: bool,
}

/// All links.
#[derive(Debug, Default)]
pub struct Network {
    links: BTreeMap<u64, Link>,
    next: u64,
    /// Node → until when it reaches nobody.
    cut: BTreeMap<usize, u64>,
    /// Node → until when what is sent on its links waits; the links survive it.
    stalled: BTreeMap<usize, u64>,
}

impl Network {
    /// A link by number.
    #[must_use]
    pub fn link(&self, link: u64) -> Option<&Link> {
        self.links.get(&link)
    }

    /// The controller has read the registration.
    pub fn register(&mut self, link: u64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.registered = true;
        }
    }

    /// Opens a link.
    pub fn open(&mut self, node: usize, controller: u64, now: u64) -> u64 {
        self.next += 1;
        let link = Link {
            node,
            controller,
            broken: None,
            readable_until: 0,
            up_free: now,
            down_free: now,
            registered: false,
        };
        self.links.insert(self.next, link);
        self.next
    }

    /// The node reaches nobody for a while.
    pub fn cut(&mut self, node: usize, until: u64) {
        self.cut.insert(node, until);
    }

    /// Nothing passes on the node's links for a while; then all arrives, in order.
    pub fn stall(&mut self, node: usize, until: u64) {
        let before = self.stalled.entry(node).or_default();
        *before = until.max(*before);
    }

    fn stalled_until(&self, node: usize) -> u64 {
        self.stalled.get(&node).copied().unwrap_or_default()
    }

    /// Every cut ends, and nothing that is sent from now on waits.
    pub fn heal(&mut self) {
        self.cut.clear();
        self.stalled.clear();
    }

    /// The node can be reached.
    #[must_use]
    pub fn reaches(&self, node: usize, now: u64) -> bool {
        self.cut.get(&node).is_none_or(|until| *until <= now)
    }

    /// Unbroken links.
    #[must_use]
    pub fn whole(&self) -> Vec<u64> {
        self.links
            .iter()
            .filter(|(_, link)| link.broken.is_none())
            .map(|(number, _)| *number)
            .collect()
    }

    /// Marks a link as broken; true if it was whole.
    pub fn break_link(&mut self, link: u64, now: u64, readable_until: u64) -> bool {
        match self.links.get_mut(&link) {
            Some(link) if link.broken.is_none() => {
                link.broken = Some(now);
                link.readable_until = readable_until;
                true
            }
            _ => false,
        }
    }

    /// What was sent then is read by the controller now.
    #[must_use]
    pub fn is_read(&self, link: u64, sent: u64, now: u64) -> bool {
        self.link(link).is_some_and(|link| {
            link.broken
                .is_none_or(|at| sent <= at && now <= link.readable_until)
        })
    }
}

impl World {
    fn delay(&mut self) -> u64 {
        let (low, high) = self.options.network_ms;
        // Most messages are quick, some take long.
        let high = if self.chance.likely(900) {
            low + (high - low) / 10
        } else {
            high
        };
        self.chance.between(low, high)
    }

    fn stalled_until(&self, link: u64) -> u64 {
        self.network
            .link(link)
            .map_or(0, |link| self.network.stalled_until(link.node))
    }

    /// A delay for a message outside of links.
    pub fn message_delay(&mut self) -> u64 {
        self.delay()
    }

    /// Sends a message to the controller.
    pub fn send_up(&mut self, link: u64, envelope: ReportEnvelope) {
        let delay = self.delay();
        let now = self.now_ms;
        let stalled = self.stalled_until(link);
        let Some(state) = self.network.links.get_mut(&link) else {
            return;
        };
        let at = (now + delay).max(state.up_free).max(stalled);
        state.up_free = at;
        let envelope = Box::new(envelope);
        self.after(
            at - now,
            Happening::ToController {
                link,
                sent: now,
                envelope,
            },
        );
    }

    /// Sends a message to an agent.
    pub fn send_down(&mut self, link: u64, order: AgentOrder) {
        let delay = self.delay();
        let now = self.now_ms;
        let stalled = self.stalled_until(link);
        let Some(state) = self.network.links.get_mut(&link) else {
            return;
        };
        let at = (now + delay).max(state.down_free).max(stalled);
        state.down_free = at;
        self.after(
            at - now,
            Happening::ToAgent {
                link,
                order: Box::new(order),
            },
        );
    }

    /// A link breaks; both ends notice in their own time.
    pub fn break_link(&mut self, link: u64, notice_max_ms: u64) {
        let now = self.now_ms;
        let readable = if self.chance.likely(500) {
            now + self.chance.between(0, 1_000)
        } else {
            0
        };
        if !self.network.break_link(link, now, readable) {
            return;
        }
        self.note(|| format!("link {link} breaks"));
        let (first, second) = (
            self.chance.between(1, notice_max_ms),
            self.chance.between(1, notice_max_ms),
        );
        self.after(first, Happening::ControllerNotices { link });
        self.after(second, Happening::AgentNotices { link });
    }
}
