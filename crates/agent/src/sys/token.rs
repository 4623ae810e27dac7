//! Tokens: how the agent proves to the controller which node it is, and what local users get to prove who they are; and the
//! pin by which both know the controller.
//!
//! HS256 JSON web tokens signed with the cluster's key. A key file that others can read is refused, because whoever has
//! the key can be anybody. Times are seconds since 1970.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use sluice_tls::{Pin, ServerKey};

/// How long an agent's token is good; it needs one for every connection only.
pub const AGENT_LIFESPAN_SECS: u64 = 3600;
/// How long a token for a local user is good.
pub const USER_LIFESPAN_SECS: u64 = 1800;
/// Variable that names the key file.
pub const KEY_FILE_VARIABLE: &str = "SLUICE_KEY_FILE";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// None of the files exists (yet).
    #[error("no cluster key: looked for {}; ctld makes it at its first start, copy it to this node if it has no shared folder",
        .0.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    NoKey(Vec<PathBuf>),
    /// It exists and cannot be read.
    #[error("cannot read the cluster key {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Others can read it.
    #[error("the cluster key {} can be read by others (mode {mode:04o}); make it 0600", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Signing failed.
    #[error("cannot sign a token")]
    Sign(#[from] jsonwebtoken::errors::Error),
    /// The controller's key cannot be derived.
    #[error(transparent)]
    Derive(#[from] sluice_tls::KeyError),
}

/// The cluster's key.
pub struct ClusterKey {
    signing: EncodingKey,
    server_pin: Pin,
}

#[derive(Serialize)]
struct Claims<'a> {
    sun: &'a str,
    uid: u32,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
}

impl ClusterKey {
    /// The first of the files that exists.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn load(candidates: &[PathBuf]) -> Result<Self, TokenError> {
        for path in candidates {
            match fs::read(path) {
                Ok(bytes) => {
                    check_mode(path)?;
                    return Ok(Self {
                        signing: EncodingKey::from_secret(&bytes)?,
                        server_pin: ServerKey::derive(&bytes)?.pin(),
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(TokenError::Read {
                        path: path.clone(),
                        source,
                    });
                }
            }
        }
        Err(TokenError::NoKey(candidates.to_vec()))
    }

    /// What the controller's public key must be.
    #[must_use]
    pub fn server_pin(&self) -> Pin {
        self.server_pin
    }

    /// A token for this node's agent.
    ///
    /// # Errors
    /// When signing fails.
    pub fn agent_token(&self, node: &str) -> Result<String, TokenError> {
        let uid = nix::unistd::geteuid().as_raw();
        let name = user_name(uid).unwrap_or_else(|| uid.to_string());
        self.sign(&name, uid, Some(node), AGENT_LIFESPAN_SECS)
    }

    /// A token for a local user.
    ///
    /// # Errors
    /// When signing fails.
    pub fn user_token(&self, name: &str, uid: u32) -> Result<String, TokenError> {
        self.sign(name, uid, None, USER_LIFESPAN_SECS)
    }

    fn sign(
        &self,
        sun: &str,
        uid: u32,
        agent: Option<&str>,
        lifespan_secs: u64,
    ) -> Result<String, TokenError> {
        let (iat, end) = times();
        let claims = Claims {
            sun,
            uid,
            iat,
            exp: end + lifespan_secs,
            agent,
        };
        Ok(jsonwebtoken::encode(
            &Header::new(Algorithm::HS256),
            &claims,
            &self.signing,
        )?)
    }
}

fn wall_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// The present in seconds since 1970, as the earliest and the latest that it may be: the system's clock, and what it was at the
/// agent's start with the time that passed since. A clock that jumps must not cost a node its controller.
fn times() -> (u64, u64) {
    static START: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), wall_secs()));
    let steady = START.1 + START.0.elapsed().as_secs();
    let wall = wall_secs();
    (wall.min(steady), wall.max(steady))
}

fn check_mode(path: &Path) -> Result<(), TokenError> {
    let mode = fs::metadata(path)
        .map_err(|source| TokenError::Read {
            path: path.to_path_buf(),
            source,
        })?
        .mode()
        & 0o7777;
    if mode & 0o077 != 0 {
        return Err(TokenError::Exposed {
            path: path.to_path_buf(),
            mode,
        });
    }
    Ok(())
}

/// Login name of a user id; may ask the network.
pub fn user_name(uid: u32) -> Option<String> {
    nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid))
        .ok()
        .flatten()
        .map(|user| user.name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A key that others can read must not be used: they could be anybody.
    #[test]
    fn exposed_and_missing_keys_are_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        let candidates = [folder.path().join("nosuch"), path.clone()];
        assert!(
            matches!(ClusterKey::load(&candidates), Err(TokenError::NoKey(paths)) if paths.len() == 2)
        );
        fs::write(&path, [7; 32]).expect("key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mode");
        assert!(matches!(
            ClusterKey::load(&candidates),
            Err(TokenError::Exposed { mode: 0o644, .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        let key = ClusterKey::load(&candidates).expect("key");
        let token = key.agent_token("n1").expect("token");
        assert_eq!(token.split('.').count(), 3);
        let server = ServerKey::derive(&[7; 32]).expect("key");
        assert_eq!(key.server_pin(), server.pin());
    }
}
