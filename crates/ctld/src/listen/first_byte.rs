//! Accepting connections, and dropping those that say nothing: a connection is handed on only when its first byte is there.
//!
//! HTTP/2's own pings begin only after its handshake, so without this a peer that connects and stays silent would hold a
//! file descriptor for ever. Errors of `accept` (no descriptors left) are waited out, never fatal.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Most connections that may be waiting for their first byte; more wait in the kernel's queue.
const SILENT_CONNECTIONS_MAX: usize = 4096;
/// Pause after an error of `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener of either kind.
pub(super) trait Accept: Send + Sync + 'static {
    type Stream: Send + Sync + 'static;

    fn accept_one(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    /// Waits until the peer has sent something, and leaves it unread.
    fn first_byte(stream: &Self::Stream) -> impl Future<Output = io::Result<()>> + Send;
}

/// The connections of a listener. Accepting ends, and the socket is closed, when the stream is dropped.
pub(super) fn incoming<L: Accept>(
    listener: L,
    deadline: Duration,
) -> ReceiverStream<io::Result<L::Stream>> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(accept_all(listener, deadline, sender));
    ReceiverStream::new(receiver)
}

async fn accept_all<L: Accept>(
    listener: L,
    deadline: Duration,
    sender: mpsc::Sender<io::Result<L::Stream>>,
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
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!("accepting a connection failed: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Ok(Ok(())) = tokio::time::timeout(deadline, L::first_byte(&stream)).await {
                // The receiver is gone only when the daemon stops.
                let _ = sender.send(Ok(stream)).await;
            }
            drop(permit);
        });
    }
}
