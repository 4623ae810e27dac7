//! The stream to the controller: dial, register, carry orders and reports, and dial again for ever.
//!
//! The agent dials, so compute nodes need no open port. Pauses between tries grow and are scattered, so that thousands of
//! agents do not return in the same moment. A dead peer is noticed by HTTP/2 pings. Invariant: the first message of every
//! stream is the registration, because the service queues it when it is told of the new link.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sluice_model::launch::AgentOrder;
use sluice_proto::v1::AgentMessage;
use sluice_proto::v1::agents_client::AgentsClient;
use sluice_tls::{DialError, Pin, Trust};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, error, info, warn};

use crate::node::NodeContext;
use crate::sys::token::ClusterKey;

/// How long one dial may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between HTTP/2 pings, and how long the answer may take.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));
/// First and longest pause between two tries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A link that held this long starts the pauses anew.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// What the connection tells the service.
#[derive(Debug)]
pub enum LinkEvent {
    /// A stream is being opened; what is sent here goes out on it, the registration first.
    Up {
        /// Number of the link.
        epoch: u64,
        /// The way out.
        sender: mpsc::UnboundedSender<AgentMessage>,
    },
    /// An order arrived.
    Order {
        /// Number of the link.
        epoch: u64,
        /// Order.
        order: Box<AgentOrder>,
    },
    /// The stream is closed.
    Down {
        /// Number of the link.
        epoch: u64,
    },
}

/// Opens a channel to the controller that has the pinned key.
///
/// # Errors
/// When nobody answers there, or somebody else.
pub async fn open_channel(host: &str, port: u16, pin: Pin) -> anyhow::Result<Channel> {
    // The URI is only the requests' form: the connector knows whom to dial, and TLS is its business.
    let endpoint = Endpoint::from_static("http://ctld")
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true);
    let connector = sluice_tls::connector(host, port, Trust::Pinned(pin));
    endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| match DialError::behind(&error) {
            Some(reason) if reason.is_final() => anyhow::anyhow!("{reason}"),
            _ => error.into(),
        })
}

/// A request with a token.
///
/// # Errors
/// When the token is no text, which no token of ours is.
pub fn bearer<T>(message: T, token: &str) -> anyhow::Result<tonic::Request<T>> {
    let mut request = tonic::Request::new(message);
    request
        .metadata_mut()
        .insert("authorization", format!("Bearer {token}").parse()?);
    Ok(request)
}

/// Keeps the link until the receiver of its events is gone.
pub async fn keep_connected(
    context: watch::Receiver<Arc<NodeContext>>,
    events: mpsc::UnboundedSender<LinkEvent>,
) {
    let mut epoch = 0;
    let mut pause = PAUSE.0;
    let mut told = String::new();
    while !events.is_closed() {
        let node = Arc::clone(&context.borrow());
        let mut held = false;
        for controller in &node.config.controllers {
            let (host, port) = (controller.address(), node.config.slurmctld_port);
            let begin = Instant::now();
            epoch += 1;
            let end = one_link(&node, host, port, epoch, &events).await;
            let _ = events.send(LinkEvent::Down { epoch });
            held |= begin.elapsed() > STABLE_AFTER;
            let text = match end {
                Ok(()) => format!("{host}:{port} closed the stream"),
                Err(error) => format!("{host}:{port}: {error:#}"),
            };
            // One line per cause: an agent may wait for its controller for days.
            if text == told {
                debug!("no link to the controller: {text}");
            } else {
                warn!("no link to the controller: {text}; trying on");
                told = text;
            }
            if held {
                told.clear();
                break;
            }
        }
        pause = if held {
            PAUSE.0
        } else {
            (pause * 2).min(PAUSE.1)
        };
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
    }
}

async fn one_link(
    node: &NodeContext,
    host: &str,
    port: u16,
    epoch: u64,
    events: &mpsc::UnboundedSender<LinkEvent>,
) -> anyhow::Result<()> {
    let (token, pin) = credentials(node.key_files.clone(), node.node.name.clone()).await?;
    let channel = open_channel(host, port, pin).await?;
    let mut client = AgentsClient::new(channel)
        .max_decoding_message_size(sluice_frames::MAX_FRAME_BYTES)
        .max_encoding_message_size(sluice_frames::MAX_FRAME_BYTES);
    let (sender, receiver) = mpsc::unbounded_channel();
    events
        .send(LinkEvent::Up { epoch, sender })
        .context("the agent is ending")?;
    let request = bearer(UnboundedReceiverStream::new(receiver), &token)?;
    let mut orders = client.connect(request).await?.into_inner();
    info!("connected to the controller at {host}:{port}");
    while let Some(message) = orders.message().await? {
        match sluice_proto::decode_order(&message) {
            Ok(order) => events
                .send(LinkEvent::Order {
                    epoch,
                    order: Box::new(order),
                })
                .context("the agent is ending")?,
            Err(error) => error!("an order is ignored: {error}"),
        }
    }
    Ok(())
}

/// Addresses of the controllers, each with the port.
#[must_use]
pub fn controller_addresses(config: &sluice_config::ClusterConfig) -> Vec<String> {
    config
        .controllers
        .iter()
        .map(|controller| format!("{}:{}", controller.address(), config.slurmctld_port))
        .collect()
}

/// A token for the node's agent, and the controller's pin.
///
/// # Errors
/// When there is no usable key.
pub async fn credentials(key_files: Vec<PathBuf>, node: String) -> anyhow::Result<(String, Pin)> {
    tokio::task::spawn_blocking(move || {
        let key = ClusterKey::load(&key_files)?;
        Ok((key.agent_token(&node)?, key.server_pin()))
    })
    .await?
}
