//! Who is calling, and what they may do. Local callers are known by the peer credentials of the Unix socket, remote ones by an
//! HS256 token; there is no third way in.
//!
//! Identities are made only here. Decisions about jobs are not made here, except the one question "may this caller act on that
//! user's job". Times are seconds since 1970 and arrive as arguments where a token is judged.
//!
//! **Invariant:** every request that reaches a service carries an [`Identity`]; [`identity_of`] refuses one that does not.

mod authenticator;
mod identity;
mod key_file;
mod roles;
mod token;
mod user_directory;

pub use authenticator::{AuthError, Authenticator};
pub use identity::{Identity, IdentitySource, identity_of};
pub use key_file::KeyFileError;
pub use roles::{Role, Roles};
pub use token::{DEFAULT_LIFESPAN_SECS, TokenClaims, TokenError, TokenKey, TokenSubject};
pub use user_directory::{LookupError, UserDirectory, UserRecord};
