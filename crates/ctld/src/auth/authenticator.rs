//! Turns what a connection or a request brings (peer credentials, a bearer token) into an [`Identity`].
//!
//! The only place that reads the clock for tokens. Everything it refuses is refused with a text for the caller.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Identity, IdentitySource, LookupError, TokenError, TokenKey, UserDirectory};

/// Why a caller is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Nothing was brought.
    #[error(
        "no credential was sent\n\nhint: send the metadata `authorization: Bearer <token>`; the commands take the token from \
         SLURM_JWT, `scontrol token` issues one"
    )]
    NoCredential,
    /// The header is there but it is not `Bearer TOKEN`.
    #[error("the authorization metadata is not of the form `Bearer <token>`")]
    NotBearer,
    /// The kernel did not say who is at the other end of the socket.
    #[error("the peer credentials of the connection cannot be read")]
    NoPeer,
    /// The token is not accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token names a user whom this machine does not know.
    #[error(
        "the token is for user '{0}', who is not known on ctld's machine\n\nhint: add the user there, or use a token with a uid (`scontrol token` of this cluster makes such)"
    )]
    UnknownUser(String),
    /// The name service failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

impl AuthError {
    /// The status that the caller gets: `UNAVAILABLE` where trying again can help, else `UNAUTHENTICATED`.
    #[must_use]
    pub fn to_status(&self) -> tonic::Status {
        match self {
            AuthError::Lookup(_) => tonic::Status::unavailable(self.to_string()),
            _ => tonic::Status::unauthenticated(self.to_string()),
        }
    }
}

/// Knows the cluster's key and the machine's users.
#[derive(Debug)]
pub struct Authenticator {
    key: Arc<TokenKey>,
    directory: UserDirectory,
}

impl Authenticator {
    /// An authenticator for one cluster.
    #[must_use]
    pub fn new(key: Arc<TokenKey>, directory: UserDirectory) -> Authenticator {
        Authenticator { key, directory }
    }

    /// The cluster's key, for issuing tokens.
    #[must_use]
    pub fn key(&self) -> &TokenKey {
        &self.key
    }

    /// The machine's users.
    #[must_use]
    pub fn directory(&self) -> &UserDirectory {
        &self.directory
    }

    /// The caller at the other end of a Unix socket. A uid without a name is believed, and named by its digits.
    ///
    /// # Errors
    /// [`AuthError::Lookup`] when the name service does not answer.
    pub async fn from_peer(
        &self,
        uid: u32,
        gid: u32,
        pid: Option<i32>,
    ) -> Result<Identity, AuthError> {
        let user_name = self
            .directory
            .find_uid(uid)
            .await?
            .map_or_else(|| uid.to_string(), |user| user.name);
        Ok(Identity {
            uid,
            gid: Some(gid),
            user_name,
            source: IdentitySource::Local { pid },
        })
    }

    /// The caller that sent this value of the `authorization` metadata.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn from_authorization(&self, value: &str) -> Result<Identity, AuthError> {
        let (scheme, token) = value.trim().split_once(' ').ok_or(AuthError::NotBearer)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(AuthError::NotBearer);
        }
        let token = token.trim();
        match self.from_token(token, now_secs()).await {
            // The system's clock may have jumped since this daemon or the issuer started: its own time is as good.
            Err(AuthError::Token(TokenError::Expired { .. } | TokenError::NotYetValid { .. })) => {
                self.from_token(token, crate::core::now().0).await
            }
            outcome => outcome,
        }
    }

    /// The caller that this token is for, judged at the time `now` (seconds since 1970).
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn from_token(&self, token: &str, now: i64) -> Result<Identity, AuthError> {
        let claims = self.key.verify(token, now)?;
        let source = claims
            .agent
            .map_or(IdentitySource::Token, IdentitySource::Agent);
        // A uid in a signed token holds even where this machine knows the user by another id, or not at all.
        if let Some(uid) = claims.uid {
            let known = self
                .directory
                .find_uid(uid)
                .await?
                .filter(|user| user.name == claims.sun);
            return Ok(Identity {
                uid,
                gid: known.map(|user| user.gid),
                user_name: claims.sun,
                source,
            });
        }
        let user = self
            .directory
            .find_name(&claims.sun)
            .await?
            .ok_or(AuthError::UnknownUser(claims.sun))?;
        Ok(Identity {
            uid: user.uid,
            gid: Some(user.gid),
            user_name: user.name,
            source,
        })
    }
}

/// The time in seconds since 1970.
fn now_secs() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| i64::try_from(elapsed.as_secs()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::TokenSubject;

    const NOW: i64 = 1_700_000_000;

    fn authenticator() -> Authenticator {
        let key = TokenKey::from_bytes(&[3; 32]).expect("key");
        Authenticator::new(Arc::new(key), UserDirectory::default())
    }

    async fn identity(
        user_name: &str,
        uid: Option<u32>,
        agent: Option<&str>,
    ) -> Result<Identity, AuthError> {
        let auth = authenticator();
        let subject = TokenSubject {
            user_name: user_name.to_owned(),
            uid,
            agent: agent.map(str::to_owned),
        };
        let token = auth.key().issue(&subject, NOW, 60).expect("issue");
        auth.from_token(&token, NOW).await
    }

    #[tokio::test]
    async fn tokens_with_and_without_uid() {
        let root = identity("root", None, None).await.expect("looked up");
        assert_eq!(
            (root.uid, root.gid, root.source),
            (0, Some(0), IdentitySource::Token)
        );
        let far = identity("someone-elsewhere", Some(4_000_000_123), None)
            .await
            .expect("taken from the token");
        assert_eq!(
            (far.uid, far.gid, far.user_name.as_str()),
            (4_000_000_123, None, "someone-elsewhere")
        );
        let unknown = identity("no-such-user-here", None, None)
            .await
            .expect_err("unknown");
        assert_eq!(
            unknown,
            AuthError::UnknownUser("no-such-user-here".to_owned())
        );
        assert_eq!(unknown.to_status().code(), tonic::Code::Unauthenticated);
        let agent = identity("root", Some(0), Some("n1")).await.expect("agent");
        assert_eq!(agent.agent_node(), Some("n1"));
    }

    #[tokio::test]
    async fn a_local_caller_without_a_name_keeps_its_number() {
        let caller = authenticator()
            .from_peer(4_000_000_123, 7, Some(42))
            .await
            .expect("identity");
        assert_eq!(caller.user_name, "4000000123");
        assert_eq!(
            (caller.gid, caller.source),
            (Some(7), IdentitySource::Local { pid: Some(42) })
        );
    }

    #[tokio::test]
    async fn other_schemes_are_refused() {
        let auth = authenticator();
        for value in ["", "Bearer", "Basic abc", "bearerabc"] {
            assert_eq!(
                auth.from_authorization(value).await,
                Err(AuthError::NotBearer),
                "{value}"
            );
        }
        let expired = auth.key().issue(
            &TokenSubject {
                user_name: "root".to_owned(),
                uid: None,
                agent: None,
            },
            NOW,
            60,
        );
        let refused = auth
            .from_authorization(&format!("bearer {}", expired.expect("issue")))
            .await;
        assert!(
            matches!(refused, Err(AuthError::Token(TokenError::Expired { .. }))),
            "{refused:?}"
        );
    }
}
