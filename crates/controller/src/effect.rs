//! What the shell must do once the events of a command are durable.
//!
//! Effects may be carried out twice or lost in a crash: everything they ask for follows from the state again when an agent
//! registers ([`crate::launch::orders_for_node`]).

use sluice_model::ids::JobId;
use sluice_model::launch::AgentOrder;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send an order to the agent of a node, if it is connected.
    Order {
        /// NodeName.
        node: String,
        /// Order.
        order: Box<AgentOrder>,
    },
    /// Something that may let jobs start has changed: plan again.
    WakePlanner,
    /// Tell watchers of a job that it changed.
    JobChanged {
        /// Job.
        job: JobId,
    },
    /// Run MailProg.
    Mail {
        /// Recipient.
        to: String,
        /// Subject.
        subject: String,
    },
    /// Run a trigger's program as its user.
    RunTrigger {
        /// Number, for the log.
        id: u32,
        /// User.
        uid: u32,
        /// Program, perhaps with arguments.
        program: String,
        /// What it is told.
        argument: String,
    },
    /// Run the program of a reservation's start or end.
    RunReservationProgram {
        /// Whose rights it has: SlurmUser.
        user: String,
        /// Program.
        program: String,
        /// Name of the reservation, its argument.
        reservation: String,
    },
    /// The configuration changed: tell agents.
    ConfigChanged,
}
