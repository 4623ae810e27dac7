//! Agents that are connected: one outgoing queue each. A silent agent costs its own queue, never the writer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use sluice_model::launch::AgentOrder;
use tokio::sync::mpsc;

/// Orders that may wait for one agent; beyond it the connection is cut and the agent gets everything anew when it registers.
const ORDERS_MAX: usize = 65_536;

struct Session {
    number: u64,
    orders: mpsc::Sender<AgentOrder>,
}

/// All connected agents.
#[derive(Default)]
pub struct Sessions {
    by_node: RwLock<HashMap<String, Session>>,
    next: AtomicU64,
}

impl Sessions {
    /// Opens a session; an older one of the same node ends. Gives its number and the queue to send from.
    pub fn open(&self, node: &str) -> (u64, mpsc::Receiver<AgentOrder>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (orders, queue) = mpsc::channel(ORDERS_MAX);
        self.by_node
            .write()
            .insert(node.to_owned(), Session { number, orders });
        (number, queue)
    }

    /// Closes a session; true if it was the node's current one.
    pub fn close(&self, node: &str, number: u64) -> bool {
        let mut sessions = self.by_node.write();
        let current = sessions
            .get(node)
            .is_some_and(|session| session.number == number);
        if current {
            sessions.remove(node);
        }
        current
    }

    /// Sends an order if the node is connected. What is not sent follows from the state when the agent registers.
    pub fn send(&self, node: &str, order: AgentOrder) {
        let full = match self.by_node.read().get(node) {
            Some(session) => session.orders.try_send(order).is_err(),
            None => false,
        };
        if full {
            tracing::warn!(
                node,
                "agent does not take its orders; its connection is cut"
            );
            self.by_node.write().remove(node);
        }
    }

    /// Tells every agent that the configuration changed.
    pub fn config_changed(&self, version: u64) {
        let nodes: Vec<String> = self.by_node.read().keys().cloned().collect();
        for node in nodes {
            self.send(&node, AgentOrder::Configuration { version });
        }
    }

    /// Ends all sessions: the daemon stops, and the agents connect again to the next one.
    pub fn close_all(&self) {
        self.by_node.write().clear();
    }

    /// Connected agents.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_node.read().len()
    }
}
