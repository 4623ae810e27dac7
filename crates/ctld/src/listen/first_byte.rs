//! Accepting connections, and dropping those that say nothing: a connection is handed on only when its first byte
//! is there and, on TCP, when its TLS handshake is done.
//!
//! HTTP/2's own pings begin only after its handshake, so without this a peer that connects and stays silent would hold a
//! file descriptor for ever. Errors of `accept` (no descriptors left) are waited out, never fatal.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Most connections that may be waiting for their first byte or their handshake; more wait in the kernel's queue.
const SILENT_CONNECTIONS_MAX: usize = 4096;
/// Pause after an error of `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener of either kind.
pub(super) trait Accept: Send + Sync + 'static {
    /// What the kernel gives.
    type Accepted: Send + 'static;
    /// What is handed on.
    type Connection: Send + 'static;

    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;
    /// Waits until the peer has sent something, and does what comes before the first request.
    fn open(accepted: Self::Accepted) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

/// The connections of a listener. Accepting ends, and the socket is closed, when the stream is dropped.
pub(super) fn incoming<L: Accept>(
    listener: L,
    deadline: Duration,
) -> ReceiverStream<io::Result<L::Connection>> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(accept_all(listener, deadline, sender));
    ReceiverStream::new(receiver)
}

async fn accept_all<L: Accept>(
    listener: L,
    deadline: Duration,
    sender: mpsc::Sender<io::Result<L::Connection>>,
) {
    let silent = Arc::new(Semaphore::new(SILENT_CONNECTIONS_MAX));
    loop {
        let Ok(permit) = silent.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept_one() => accepted,
            () = sender.closed() => return,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Ok(Ok(connection)) = tokio::time::timeout(deadline, L::open(accepted)).await {
                // The receiver is gone only when the daemon stops.
                let _ = sender.send(Ok(connection)).await;
            }
            drop(permit);
        });
    }
}
