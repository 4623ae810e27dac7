//! The sockets: where they are, how they are bound, what is left behind when they close.
//!
//! A socket file is removed only when nobody listens on it, and on closing only when it is still ours. A TCP connection is
//! handed on only after its TLS handshake.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{MsgFlags, recv};
use sluice_tls::{AcceptError, Acceptor, ServerStream};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_stream::wrappers::ReceiverStream;

use super::first_byte::{self, Accept};
use super::{ListenError, ServeOptions};

/// A bound Unix socket.
#[derive(Debug)]
pub struct UnixEndpoint {
    listener: UnixListener,
    guard: SocketFile,
}

/// A bound TCP socket.
#[derive(Debug)]
pub struct TcpEndpoint {
    listener: TlsListener,
    address: SocketAddr,
}

/// A TCP socket whose connections begin with a TLS handshake.
#[derive(Debug)]
struct TlsListener {
    listener: TcpListener,
    tls: Arc<Tls>,
}

#[derive(Debug)]
struct Tls {
    acceptor: Acceptor,
    /// Whether the log says already that somebody spoke no TLS.
    plaintext_told: AtomicBool,
}

/// Removes the socket file when dropped, if it is still the one that we made.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && file_identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path)
        .ok()
        .map(|facts| (facts.dev(), facts.ino()))
}

/// Where ctld's Unix socket may be, in the order in which ctld and its clients try: beside the pid file, else in the state
/// folder.
#[must_use]
pub fn unix_candidates(pid_file: &Path, cluster: &str, state_dir: &Path) -> Vec<PathBuf> {
    let beside_pid = pid_file
        .parent()
        .map(|folder| folder.join(format!("ctld.{cluster}.sock")));
    beside_pid
        .into_iter()
        .chain([state_dir.join("ctld.sock")])
        .collect()
}

/// Binds the first candidate that can be had, open to all local users. Needs a tokio runtime.
///
/// # Errors
/// [`ListenError::InUse`] when somebody listens on a candidate; `NoUnixSocket` when none can be made.
pub fn bind_unix(candidates: &[PathBuf]) -> Result<UnixEndpoint, ListenError> {
    let mut faults = Vec::new();
    for path in candidates {
        match bind_one(path) {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(ListenError::InUse { path: path.clone() });
            }
            Err(error) => faults.push(format!("{}: {error}", path.display())),
        }
    }
    Err(ListenError::NoUnixSocket { faults })
}

fn bind_one(path: &Path) -> io::Result<UnixEndpoint> {
    if let Ok(facts) = fs::symlink_metadata(path) {
        if !facts.file_type().is_socket() {
            return Err(io::Error::other(
                "a file of this name exists and is not a socket",
            ));
        }
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::from(io::ErrorKind::AddrInUse)),
            // Left behind by a daemon that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?
            }
            // A full backlog, or no right to connect: somebody is there, or it is not ours to judge.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::from(io::ErrorKind::AddrInUse));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let listener = UnixListener::bind(path)?;
    let guard = SocketFile {
        path: path.to_owned(),
        identity: file_identity(path),
    };
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(UnixEndpoint { listener, guard })
}

/// Binds a TCP address, for TLS only. Port 0 lets the system choose.
///
/// # Errors
/// [`ListenError::Tcp`].
pub async fn bind_tcp(address: SocketAddr, acceptor: Acceptor) -> Result<TcpEndpoint, ListenError> {
    let refused = |source| ListenError::Tcp {
        address: address.to_string(),
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let tls = Arc::new(Tls {
        acceptor,
        plaintext_told: AtomicBool::new(false),
    });
    Ok(TcpEndpoint {
        listener: TlsListener { listener, tls },
        address,
    })
}

impl UnixEndpoint {
    /// The socket file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.guard.path
    }

    pub(super) fn into_incoming(
        self,
        options: &ServeOptions,
    ) -> (ReceiverStream<io::Result<UnixStream>>, SocketFile) {
        (
            first_byte::incoming(self.listener, options.first_byte_deadline),
            self.guard,
        )
    }
}

impl TcpEndpoint {
    /// The address that was bound.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn into_incoming(
        self,
        options: &ServeOptions,
    ) -> ReceiverStream<io::Result<ServerStream>> {
        first_byte::incoming(self.listener, options.first_byte_deadline)
    }
}

impl Accept for UnixListener {
    type Accepted = UnixStream;
    type Connection = UnixStream;

    async fn accept_one(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    async fn open(stream: UnixStream) -> io::Result<UnixStream> {
        stream
            .async_io(Interest::READABLE, || peek(stream.as_raw_fd()))
            .await?;
        Ok(stream)
    }
}

impl Accept for TlsListener {
    type Accepted = (TcpStream, SocketAddr, Arc<Tls>);
    type Connection = ServerStream;

    async fn accept_one(&self) -> io::Result<Self::Accepted> {
        let (stream, peer) = self.listener.accept().await?;
        // Small messages must not wait for each other's acknowledgement.
        stream.set_nodelay(true)?;
        Ok((stream, peer, Arc::clone(&self.tls)))
    }

    async fn open((stream, peer, tls): Self::Accepted) -> io::Result<ServerStream> {
        match tls.acceptor.accept(stream).await {
            Ok(stream) => Ok(stream),
            Err(AcceptError::Plaintext) => {
                // Once: a command of an older version that is tried again and again must not fill the log.
                if !tls.plaintext_told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %peer,
                        "refused a connection without TLS; is it an agent or a command of an older version? \
                         (more of these are logged at debug level only)"
                    );
                } else {
                    tracing::debug!(%peer, "refused a connection without TLS");
                }
                Err(io::ErrorKind::InvalidData.into())
            }
            Err(AcceptError::Handshake(error)) => {
                tracing::debug!(%peer, "TLS handshake failed: {error}");
                Err(error)
            }
        }
    }
}

/// Succeeds when there is a byte to read (or the peer has closed), and leaves it there. Readiness alone may be reported falsely.
fn peek(socket: RawFd) -> io::Result<()> {
    recv(
        socket,
        &mut [0],
        MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT,
    )
    .map(|_| ())
    .map_err(io::Error::from)
}
