//! The layer in front of all services: finds out who calls, puts the [`Identity`](crate::auth::Identity) into the request's
//! extensions, or answers with the refusal itself.
//!
//! A token on the Unix socket wins over the peer credentials only for an agent's token (an agent on ctld's own machine);
//! otherwise a local caller is who the kernel says.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response, header};
use tonic::transport::server::UdsConnectInfo;
use tower::{Layer, Service};

use crate::auth::{AuthError, Authenticator, Identity, IdentitySource};

/// Wraps the services of one listener.
#[derive(Debug, Clone)]
pub struct AuthenticateLayer {
    authenticator: Arc<Authenticator>,
}

impl AuthenticateLayer {
    pub(super) fn new(authenticator: Arc<Authenticator>) -> Self {
        AuthenticateLayer { authenticator }
    }
}

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;

    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate {
            inner,
            authenticator: self.authenticator.clone(),
        }
    }
}

/// The service that checks before it passes on.
#[derive(Debug, Clone)]
pub struct Authenticate<S> {
    inner: S,
    authenticator: Arc<Authenticator>,
}

impl<S> Service<Request<Body>> for Authenticate<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The clone left behind has not been polled ready; the one that was is used up by this call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let authenticator = self.authenticator.clone();
        Box::pin(async move {
            let credential = Credential::of(&request);
            match credential.identify(&authenticator).await {
                Ok(identity) => {
                    request.extensions_mut().insert(identity);
                    inner.call(request).await
                }
                Err(refusal) => {
                    tracing::debug!(path = request.uri().path(), "refused a caller: {refusal}");
                    Ok(refusal.to_status().into_http())
                }
            }
        })
    }
}

/// What a request brings. Taken out of the request first, because its body may not be shared between threads.
struct Credential {
    /// `Some` on a Unix socket; then what the kernel said, if it said anything.
    peer: Option<Option<Peer>>,
    authorization: Option<Result<String, AuthError>>,
}

struct Peer {
    uid: u32,
    gid: u32,
    pid: Option<i32>,
}

impl Credential {
    fn of(request: &Request<Body>) -> Credential {
        let peer = request.extensions().get::<UdsConnectInfo>().map(|info| {
            info.peer_cred.map(|cred| Peer {
                uid: cred.uid(),
                gid: cred.gid(),
                pid: cred.pid(),
            })
        });
        let authorization = request.headers().get(header::AUTHORIZATION).map(|value| {
            value
                .to_str()
                .map(str::to_owned)
                .map_err(|_| AuthError::NotBearer)
        });
        Credential {
            peer,
            authorization,
        }
    }

    async fn identify(self, authenticator: &Authenticator) -> Result<Identity, AuthError> {
        let by_token = match self.authorization {
            Some(value) => Some(authenticator.from_authorization(&value?).await),
            None => None,
        };
        match (self.peer, by_token) {
            (None, None) => Err(AuthError::NoCredential),
            (None, Some(answer)) => answer,
            (Some(_), Some(Ok(identity)))
                if matches!(identity.source, IdentitySource::Agent(_)) =>
            {
                Ok(identity)
            }
            (Some(None), _) => Err(AuthError::NoPeer),
            (Some(Some(peer)), _) => authenticator.from_peer(peer.uid, peer.gid, peer.pid).await,
        }
    }
}
