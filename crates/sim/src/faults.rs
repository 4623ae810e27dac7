//! What goes wrong, and when.

use crate::invariants::Violation;
use crate::world::{Happening, World};

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The controller dies.
    Controller,
    /// An agent dies.
    Agent,
    /// A node reboots.
    Reboot,
    /// A link breaks.
    Link,
    /// A step daemon is killed.
    StepDaemon,
    /// A node reaches nobody for a while, and its links break.
    Partition,
    /// Nothing passes on a node's links for a while, and they survive it.
    Stall,
}

const ALL: [Fault; 7] = [
    Fault::Controller,
    Fault::Agent,
    Fault::Reboot,
    Fault::Link,
    Fault::StepDaemon,
    Fault::Partition,
    Fault::Stall,
];

impl World {
    fn mean(&self, fault: Fault) -> u64 {
        let faults = &self.options.faults;
        match fault {
            Fault::Controller => faults.controller,
            Fault::Agent => faults.agent,
            Fault::Reboot => faults.reboot,
            Fault::Link => faults.link,
            Fault::StepDaemon => faults.step_daemon,
            Fault::Partition => faults.partition,
            Fault::Stall => faults.stall,
        }
    }

    /// Plans the first fault of each kind.
    pub fn schedule_faults(&mut self) {
        for fault in ALL {
            self.schedule(fault);
        }
    }

    fn schedule(&mut self, fault: Fault) {
        let mean = self.mean(fault);
        if mean > 0 {
            let delay = self.chance.around(mean);
            self.after(delay, Happening::Fault(fault));
        }
    }

    /// A fault, and the next of its kind.
    ///
    /// # Errors
    /// None at present; what it causes is found by the invariants.
    pub fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        if self.calm {
            return Ok(());
        }
        self.schedule(fault);
        let node = self.chance.between(0, self.nodes.len() as u64 - 1) as usize;
        match fault {
            Fault::Controller => self.controller_dies(),
            Fault::Agent => {
                if self.nodes[node].agent_is_up() {
                    self.agent_dies(node, 200);
                    let delay = self.chance.between(50, 20_000);
                    self.after(delay, Happening::AgentStarts { node });
                }
            }
            Fault::Reboot => {
                if self.nodes[node].agent_is_up() {
                    self.node_reboots(node);
                }
            }
            Fault::Link => {
                let links = self.network.whole();
                if !links.is_empty() {
                    let link = self.chance.pick(&links);
                    let notice = self.chance.pick(&[100, 2_000, 20_000]);
                    self.break_link(link, notice);
                }
            }
            Fault::StepDaemon => {
                let steps: Vec<_> = self.nodes[node]
                    .processes
                    .values()
                    .map(|process| process.step)
                    .collect();
                if !steps.is_empty() {
                    let step = self.chance.pick(&steps);
                    self.step_daemon_dies(node, step);
                }
            }
            Fault::Stall => {
                let longest = self.chance.pick(&[2_000, 20_000, 100_000]);
                let until = self.now_ms + self.chance.between(500, longest);
                self.network.stall(node, until);
            }
            Fault::Partition => {
                let until = self.now_ms + self.chance.between(1_000, 100_000);
                self.network.cut(node, until);
                for link in self.network.whole() {
                    if self
                        .network
                        .link(link)
                        .is_some_and(|link| link.node == node)
                    {
                        self.break_link(link, 20_000);
                    }
                }
            }
        }
        Ok(())
    }
}
