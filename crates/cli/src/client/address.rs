//! Names and addresses of this machine, and random texts for keys and secrets.
//!
//! Asks the kernel only; no name service is waited for longer than it takes to look up the controller.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use super::Settings;

/// Short name of this host.
#[must_use]
pub fn short_hostname() -> String {
    let full = nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_default();
    full.split('.').next().unwrap_or_default().to_string()
}

/// The address at which nodes of the cluster reach this machine: the one it would use to reach the controller.
#[must_use]
pub fn address_towards(settings: &Settings) -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let Some(host) = settings.controllers.first() else {
        return loopback;
    };
    let Some(target) = (host.as_str(), settings.port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next())
    else {
        return loopback;
    };
    let any: SocketAddr = if target.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    // Connecting a datagram socket sends nothing; it only chooses the route.
    UdpSocket::bind(any)
        .and_then(|socket| {
            socket.connect(target)?;
            socket.local_addr()
        })
        .map_or(loopback, |address| address.ip())
}

/// A random text of 32 hexadecimal digits.
#[must_use]
pub fn random_text() -> String {
    let mut bytes = [0_u8; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        // No random device: a process id and a clock are unique enough for a key, and secrets need not be guessed
        // against on a machine without devices.
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        bytes = (nanos ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two submissions never share a key.
    #[test]
    fn random_texts_differ() {
        let (first, second) = (random_text(), random_text());
        assert_eq!(first.len(), 32);
        assert_ne!(first, second);
    }
}
