//! Free TCP ports on the loopback interface, reserved across processes.
//!
//! Port 0 would give a port of the ephemeral range, where any outgoing connection may take it between our look and the
//! daemon's `bind`. So ports are taken below that range, in one run of consecutive numbers (a node line can then say
//! `Port=[17001-17004]`), and each is reserved by a name in the abstract Unix socket namespace for as long as the
//! reservation lives. The kernel drops the name with the process, so no file is left behind.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Result, bail};

/// First port tried; well-known services of a Slurm site (6817 …) lie below.
const PORT_MIN: u16 = 12_000;
/// First port not tried: Linux hands out 32768 and above to outgoing connections.
const PORT_END: u16 = 32_000;

/// Consecutive ports that no other testkit process uses while this value lives.
#[derive(Debug)]
pub struct PortRun {
    first: u16,
    count: u16,
    _held: Vec<UnixListener>,
}

impl PortRun {
    /// Reserves `count` consecutive free ports.
    ///
    /// # Errors
    /// When the whole range holds no such run.
    pub fn reserve(count: u16) -> Result<Self> {
        let runs = (PORT_END - PORT_MIN) / count;
        // Different processes begin at different places, so that they rarely meet.
        let begin = (std::process::id() % u32::from(runs)) as u16;
        for nth in 0..runs {
            let first = PORT_MIN + ((begin + nth) % runs) * count;
            if let Some(held) = hold(first, count) {
                return Ok(Self {
                    first,
                    count,
                    _held: held,
                });
            }
        }
        bail!("no {count} consecutive free TCP ports between {PORT_MIN} and {PORT_END}");
    }

    /// The `nth` port of the run.
    pub fn port(&self, nth: u16) -> u16 {
        assert!(
            nth < self.count,
            "port {nth} of a run of {} ports",
            self.count
        );
        self.first + nth
    }
}

fn hold(first: u16, count: u16) -> Option<Vec<UnixListener>> {
    (first..first + count)
        .map(|port| {
            let name =
                SocketAddr::from_abstract_name(format!("sluice-testkit-port-{port}")).ok()?;
            let held = UnixListener::bind_addr(&name).ok()?;
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
            Some(held)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, two clusters of one test run could get the same port.
    #[test]
    fn two_reservations_never_overlap() {
        let a = PortRun::reserve(5).unwrap();
        let b = PortRun::reserve(5).unwrap();
        assert!(a.port(4) < b.port(0) || b.port(4) < a.port(0));
    }

    /// Without this, a port that something listens on could be handed out.
    #[test]
    fn a_port_in_use_is_refused() {
        let run = PortRun::reserve(1).unwrap();
        let port = run.port(0);
        drop(run);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(hold(port, 1).is_none());
    }
}
