//! The caller of a request, as established when the request came in.
//!
//! Plain data; travels in the request's extensions.

use tonic::Status;

/// How the caller proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// Peer credentials of the Unix socket.
    Local {
        /// The calling process, where the kernel told it.
        pid: Option<i32>,
    },
    /// A token of a user.
    Token,
    /// A token of a node's agent.
    Agent(String),
}

/// A caller that proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group, where it is known.
    pub gid: Option<u32>,
    /// Login name; the uid in digits when this machine does not know the user.
    pub user_name: String,
    /// How that is known.
    pub source: IdentitySource,
}

impl Identity {
    /// The node, when the caller is an agent.
    #[must_use]
    pub fn agent_node(&self) -> Option<&str> {
        match &self.source {
            IdentitySource::Agent(node) => Some(node),
            IdentitySource::Local { .. } | IdentitySource::Token => None,
        }
    }
}

/// The caller of a request.
///
/// # Errors
/// `UNAUTHENTICATED` when the request did not pass the listener's check: a fault of ours, never let through.
pub fn identity_of<T>(request: &tonic::Request<T>) -> Result<&Identity, Status> {
    request
        .extensions()
        .get::<Identity>()
        .ok_or_else(|| Status::unauthenticated("the request carries no identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_identity_is_refused() {
        let status = identity_of(&tonic::Request::new(())).expect_err("refused");
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
    }
}
