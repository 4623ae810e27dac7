//! Accepting: a TLS handshake on a connection that speaks TLS, a refusal for one that does not.
//!
//! No deadline is kept here: the listener has one for everything that comes before the first request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// First byte of every TLS connection: a record with a handshake message.
const TLS_HANDSHAKE: u8 = 0x16;

/// Why a connection is not taken.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The peer speaks something else, such as HTTP/2 in the clear.
    #[error("the peer does not speak TLS")]
    Plaintext,
    /// The handshake failed, or the peer left.
    #[error("TLS handshake: {0}")]
    Handshake(#[from] io::Error),
}

/// Accepts connections in the name of the controller.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor(…)")
    }
}

impl Acceptor {
    pub(crate) fn new(config: ServerConfig) -> Self {
        Acceptor(TlsAcceptor::from(Arc::new(config)))
    }

    /// Waits for the peer's first byte, then does the handshake. Nothing is answered to a peer that speaks no TLS.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub async fn accept(&self, stream: TcpStream) -> Result<ServerStream, AcceptError> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
            return Err(AcceptError::Plaintext);
        }
        Ok(ServerStream(self.0.accept(stream).await?))
    }
}

/// A connection from a peer.
#[derive(Debug)]
pub struct ServerStream(tokio_rustls::server::TlsStream<TcpStream>);

impl Connected for ServerStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.0.get_ref().0.connect_info()
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use crate::{DialError, ServerKey, Trust, dial};

    use super::*;

    async fn serve_one(
        cluster_key: &[u8],
    ) -> (u16, tokio::task::JoinHandle<Result<Vec<u8>, AcceptError>>) {
        let acceptor = ServerKey::derive(cluster_key)
            .and_then(|key| key.acceptor())
            .expect("acceptor");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            let mut stream = acceptor.accept(stream).await?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await?;
            Ok(heard)
        });
        (port, served)
    }

    fn pinned(cluster_key: &[u8]) -> Trust {
        Trust::Pinned(ServerKey::derive(cluster_key).expect("derived").pin())
    }

    #[tokio::test]
    async fn the_right_key_is_accepted() {
        for trust in [pinned(&[1; 32]), Trust::LoopbackOnly] {
            let (port, served) = serve_one(&[1; 32]).await;
            let mut stream = dial("127.0.0.1", port, trust).await.expect("trusted");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            stream.write_all(b"hello").await.expect("write");
            stream.shutdown().await.expect("close");
            assert_eq!(served.await.expect("task").expect("served"), b"hello");
        }
    }

    /// Without this, whoever answers at the address would get the callers' tokens.
    #[tokio::test]
    async fn another_key_is_refused_before_anything_is_said() {
        let (port, served) = serve_one(&[1; 32]).await;
        let refused = dial("127.0.0.1", port, pinned(&[2; 32]))
            .await
            .expect_err("another cluster's");
        assert!(matches!(refused, DialError::WrongKey { .. }), "{refused}");
        assert!(refused.is_final());
        assert!(matches!(
            served.await.expect("task"),
            Err(AcceptError::Handshake(_))
        ));
    }

    #[tokio::test]
    async fn plain_peers_are_refused_on_both_sides() {
        let (port, served) = serve_one(&[1; 32]).await;
        let mut plain = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("connect");
        plain
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .expect("write");
        assert!(matches!(
            served.await.expect("task"),
            Err(AcceptError::Plaintext)
        ));

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            stream
                .write_all(b"\0\0\x12\x04\0\0\0\0\0 an old ctld")
                .await
                .expect("write");
            let _ = stream.read(&mut [0; 1024]).await;
        });
        let refused = dial("127.0.0.1", port, pinned(&[1; 32]))
            .await
            .expect_err("no TLS");
        assert!(matches!(refused, DialError::Handshake { .. }), "{refused}");
    }
}
