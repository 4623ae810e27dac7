//! TLS between commands, agents and the controller, without certificates to hand out: the controller's key pair comes from the
//! cluster key, and its peers know the public key (the *pin*) instead of trusting an authority.
//!
//! Whoever has the cluster key derives the same pin. Everybody else gets it from those who have it: as the second line of the
//! agent's `auth.sock`, from the file [`PIN_FILE`], or from the variable [`PIN_VARIABLE`]. Nothing about users or tokens is
//! known here. TLS 1.3 only.
//!
//! **Invariant:** no byte of a caller's goes out before the server has proved that it has the pinned key; only a loopback
//! address may go without, where no pin is known. Decision record: 0008.

mod client;
mod key;
mod server;

pub use client::{ClientStream, DialError, Trust, connector, dial};
pub use key::{KeyError, ParsePinError, Pin, ServerKey};
pub use server::{AcceptError, Acceptor, ServerStream};

/// Variable from which commands take the pin.
pub const PIN_VARIABLE: &str = "SLUICE_CTLD_KEY";
/// File with the pin: `ctld` writes it into `StateSaveLocation`, an administrator may put it beside `slurm.conf`.
pub const PIN_FILE: &str = "ctld.pub";

/// What is spoken inside; also kept apart from anything else that may ever use the same key.
const ALPN_H2: &[u8] = b"h2";
