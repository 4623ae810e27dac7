//! `<spool>/auth.sock`: a local user connects and reads two lines, a token in that user's name and the fingerprint of the
//! controller's key.
//!
//! The kernel says who the peer is; nothing that the peer sends is read. So commands on a compute node need no key.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tracing::{debug, warn};

use super::token::{ClusterKey, user_name};

/// Name of the socket in the spool directory.
pub const AUTH_SOCKET: &str = "auth.sock";

/// Serves the socket until the runtime ends.
pub async fn serve(spool: PathBuf, key_files: Vec<PathBuf>) {
    let listener = match bind(&spool) {
        Ok(listener) => listener,
        Err(error) => {
            warn!(
                "no tokens for local users: cannot listen on {}: {error}",
                spool.join(AUTH_SOCKET).display()
            );
            return;
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let key_files = key_files.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, key_files).await {
                        debug!("a local user got no token: {error:#}");
                    }
                });
            }
            Err(error) => {
                warn!("{AUTH_SOCKET}: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

fn bind(spool: &Path) -> std::io::Result<UnixListener> {
    let folder = std::fs::File::open(spool)?;
    let name = spool.join(AUTH_SOCKET);
    match std::fs::remove_file(&name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Through the folder's descriptor, because socket addresses hold 107 bytes only.
    let address = format!(
        "/proc/self/fd/{}/{AUTH_SOCKET}",
        std::os::fd::AsRawFd::as_raw_fd(&folder)
    );
    let listener = UnixListener::bind(address)?;
    std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

async fn answer(mut stream: UnixStream, key_files: Vec<PathBuf>) -> anyhow::Result<()> {
    let uid = stream.peer_cred()?.uid();
    let answer = tokio::task::spawn_blocking(move || -> anyhow::Result<String> {
        let name = user_name(uid).ok_or_else(|| anyhow::anyhow!("uid {uid} has no name"))?;
        let key = ClusterKey::load(&key_files)?;
        Ok(format!(
            "{}\n{}\n",
            key.user_token(&name, uid)?,
            key.server_pin()
        ))
    })
    .await??;
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
