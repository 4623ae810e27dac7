//! The Agents service: one stream per node. The first report registers the node; orders go the other way.
//!
//! A report with a number is acknowledged after it is durable, and only then may the agent forget it.

use std::pin::Pin;
use std::sync::Arc;

use sluice_controller::command::agent::{self, Registration};
use sluice_model::error_code::ErrorCode;
use sluice_model::launch::{AgentOrder, AgentReport, ReportEnvelope};
use sluice_proto::v1::agents_server::Agents;
use sluice_proto::v1::{AgentMessage, ControllerMessage};
use sluice_proto::{decode_report, encode_order, status_from};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::Shared;
use crate::auth::identity_of;

/// Seconds between heartbeats.
const HEARTBEAT_SECS: u32 = 5;

/// Messages encoded and waiting for the connection.
const OUTGOING_MAX: usize = 1_024;

/// The service.
pub struct AgentsService {
    /// Shared parts.
    pub shared: Arc<Shared>,
}

type Outgoing = Pin<Box<dyn Stream<Item = Result<ControllerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Agents for AgentsService {
    type ConnectStream = Outgoing;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Outgoing>, Status> {
        let identity = identity_of(&request)?.clone();
        let mut incoming = request.into_inner();
        let Some(first) = incoming.message().await? else {
            return Err(Status::invalid_argument(
                "the first message of an agent must be its registration",
            ));
        };
        let first =
            decode_report(&first).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let AgentReport::Register {
            node,
            hardware,
            steps,
            jobs,
            health_error,
            ..
        } = first.report
        else {
            return Err(Status::invalid_argument(
                "the first message of an agent must be its registration",
            ));
        };
        // The token names the node; root and SlurmUser may speak for any.
        let allowed = identity.agent_node() == Some(node.as_str())
            || self.shared.roles.may_act_as(&identity, 0);
        if !allowed {
            return Err(status_from(
                ErrorCode::AccessDenied,
                format!(
                    "{} may not register node {node}: its token is not for this node",
                    identity.user_name
                ),
            ));
        }
        let (number, orders) = self.shared.sessions.open(&node);
        let registration = Registration {
            node: node.clone(),
            hardware,
            steps,
            jobs,
            health_error,
            heartbeat_secs: HEARTBEAT_SECS,
        };
        let name = node.clone();
        let registered = self
            .shared
            .core
            .run(move |transaction| {
                let orders = agent::register(transaction, registration)?;
                for order in orders {
                    transaction.order(&name, order);
                }
                Ok(())
            })
            .await;
        if let Err(error) = registered {
            self.shared.sessions.close(&node, number);
            return Err(error.into());
        }
        tracing::info!(node, "agent registered");
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let ended = serve(&shared, &node, &mut incoming).await;
            if shared.sessions.close(&node, number) {
                let name = node.clone();
                let told = shared
                    .core
                    .run(move |transaction| {
                        agent::disconnected(transaction, &name);
                        Ok(())
                    })
                    .await;
                if told.is_ok() {
                    tracing::info!(node, "agent disconnected: {ended}");
                }
            }
        });
        let (sender, receiver) = mpsc::channel(OUTGOING_MAX);
        tokio::spawn(forward(orders, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Encodes orders one by one; ends with the session.
async fn forward(
    mut orders: mpsc::Receiver<AgentOrder>,
    outgoing: mpsc::Sender<Result<ControllerMessage, Status>>,
) {
    while let Some(order) = orders.recv().await {
        let message = encode_order(&order).map_err(|error| Status::internal(error.to_string()));
        if outgoing.send(message).await.is_err() {
            return;
        }
    }
}

/// Takes reports until the stream ends; gives words for the log.
async fn serve(shared: &Arc<Shared>, node: &str, incoming: &mut Streaming<AgentMessage>) -> String {
    loop {
        let message = match incoming.next().await {
            None => return "connection closed".to_owned(),
            Some(Err(status)) => return status.message().to_owned(),
            Some(Ok(message)) => message,
        };
        let envelope = match decode_report(&message) {
            Ok(envelope) => envelope,
            Err(error) => {
                tracing::error!(node, "report not understood and dropped: {error}");
                continue;
            }
        };
        // A connection that survived a cut longer than SlurmdTimeout: what became of the node's jobs meanwhile is told at the
        // registration, and only a registered node serves again. What is not acknowledged comes once more.
        if agent::must_register_again(&shared.core.snapshot(), node) {
            return "it was silent for long, or the node is another one, and has to register again"
                .to_owned();
        }
        let ReportEnvelope { sequence, report } = envelope;
        let Some(report) = shared.diagnostics.usage.take(node, report) else {
            continue;
        };
        let name = node.to_owned();
        // Not waited for: the writer's queue keeps the order, and the acknowledgement is an effect of the command.
        let posted = shared
            .core
            .post(move |transaction| {
                agent::report(transaction, &name, report);
                if sequence > 0 {
                    transaction.order(&name, AgentOrder::Acknowledge { sequence });
                }
                Ok(())
            })
            .await;
        if let Err(error) = posted {
            return error.to_string();
        }
    }
}
