//! Serving: one gRPC router on the Unix socket and on TCP, with the caller's identity put into every request.
//!
//! A Unix socket's caller is known by its peer credentials; a TCP caller must bring a bearer token with each request, and a
//! request without one is answered `UNAUTHENTICATED` before any service sees it. TCP is TLS only: a peer that speaks anything
//! else is dropped without an answer. Peers that fall silent are dropped too: before the first byte (and before the end of the
//! TLS handshake) after [`ServeOptions::first_byte_deadline`], later by HTTP/2 pings.
//!
//! No request is understood here, and no decision about jobs is made.

mod authenticate;
mod endpoint;
mod first_byte;

pub use endpoint::{TcpEndpoint, UnixEndpoint, bind_tcp, bind_unix, unix_candidates};

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::auth::Authenticator;
use authenticate::AuthenticateLayer;

/// Largest message that a service should take (`max_decoding_message_size`), in bytes. What a script may be is less and is
/// checked by the service that gets it.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Most requests in progress on one connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 1024;
/// Largest header block of a request, in bytes: a token fits, an attack does not.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// Flow-control windows, in bytes: a script or a long job list in few round trips.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// How peers are treated. The defaults are for a cluster's own network.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// A connection that sends nothing for so long after it was made, or on TCP has not done its TLS handshake by then, is
    /// dropped.
    pub first_byte_deadline: Duration,
    /// A connection without traffic is pinged after so long …
    pub keepalive_interval: Duration,
    /// … and dropped when it does not answer for so long.
    pub keepalive_timeout: Duration,
    /// After the stop signal, requests in progress may take so long to end.
    pub grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            first_byte_deadline: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            grace: Duration::from_secs(5),
        }
    }
}

/// Why the daemon cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// No Unix socket could be made.
    #[error("cannot listen on a Unix socket: {}", faults.join("; "))]
    NoUnixSocket {
        /// What was wrong with each candidate.
        faults: Vec<String>,
    },
    /// Somebody already listens there.
    #[error(
        "another daemon already listens on {path}\n\nhint: stop that ctld first, or give this cluster another ClusterName and \
         StateSaveLocation",
        path = path.display()
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The TCP port cannot be had.
    #[error(
        "cannot listen on {address}\n\nhint: another program may use the port (see `ss -ltnp`); SlurmctldPort chooses it"
    )]
    Tcp {
        /// Address and port.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A listener ended by itself.
    #[error("serving on {endpoint} ended")]
    Serve {
        /// Which one.
        endpoint: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Serves `routes` on all endpoints until `shutdown` becomes true (or its sender is gone), then lets requests in progress end
/// for `grace` and returns.
///
/// # Errors
/// When a listener ends by itself; the others are stopped then.
pub async fn serve(
    unix: Option<UnixEndpoint>,
    tcp: Vec<TcpEndpoint>,
    routes: Routes,
    authenticator: Arc<Authenticator>,
    shutdown: watch::Receiver<bool>,
    options: ServeOptions,
) -> Result<(), ListenError> {
    let routes = routes.prepare();
    let mut servers = JoinSet::new();
    if let Some(endpoint) = unix {
        let (mut server, stop) = (
            server(&options, &authenticator),
            stop_signal(shutdown.clone()),
        );
        let (incoming, guard) = endpoint.into_incoming(&options);
        let routes = routes.clone();
        servers.spawn(async move {
            let ended = server
                .add_routes(routes)
                .serve_with_incoming_shutdown(incoming, stop)
                .await;
            let endpoint = guard.path().display().to_string();
            ended.map_err(|source| ListenError::Serve { endpoint, source })
        });
    }
    for endpoint in tcp {
        let (mut server, stop) = (
            server(&options, &authenticator),
            stop_signal(shutdown.clone()),
        );
        let address = endpoint.local_addr().to_string();
        let incoming = endpoint.into_incoming(&options);
        let routes = routes.clone();
        servers.spawn(async move {
            let ended = server
                .add_routes(routes)
                .serve_with_incoming_shutdown(incoming, stop)
                .await;
            ended.map_err(|source| ListenError::Serve {
                endpoint: address,
                source,
            })
        });
    }
    let mut stop = std::pin::pin!(stop_signal(shutdown));
    loop {
        tokio::select! {
            () = &mut stop => break,
            ended = servers.join_next() => match ended {
                Some(Ok(Err(error))) => return Err(error),
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
    // Streams of agents and watchers have no end of their own; those who do not end within the grace are cut.
    let drained = tokio::time::timeout(options.grace, async {
        while servers.join_next().await.is_some() {}
    })
    .await;
    if drained.is_err() {
        tracing::debug!(
            "some connections did not end within {:?} and are cut",
            options.grace
        );
    }
    Ok(())
}

type Layers = tower::layer::util::Stack<AuthenticateLayer, tower::layer::util::Identity>;

fn server(options: &ServeOptions, authenticator: &Arc<Authenticator>) -> Server<Layers> {
    Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(options.keepalive_interval))
        .http2_keepalive_timeout(Some(options.keepalive_timeout))
        .layer(AuthenticateLayer::new(authenticator.clone()))
}

/// Ends when the value becomes true or nobody can set it any more.
async fn stop_signal(mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests;
