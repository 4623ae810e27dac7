//! The controller's key pair, and the pin by which its peers know it.
//!
//! The pair is Ed25519 with the seed HKDF-SHA256(cluster key, no salt, [`LABEL`]), so it needs no file of its own and is the
//! same after a restart and on every controller of the cluster. The derivation is one-way: the public key tells nothing about
//! the cluster key. Changing the label changes every cluster's pin.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;

use crate::server::Acceptor;
use crate::{ALPN_H2, PIN_FILE};

/// What the seed is derived for.
const LABEL: &[u8] = b"sluice ctld tls ed25519 v1";
/// Length of an Ed25519 seed, in bytes.
const SEED_BYTES: usize = 32;
/// An Ed25519 private key in PKCS #8 is this and the seed (RFC 8410, section 7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// An Ed25519 public key as SubjectPublicKeyInfo is this and the key (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// Name in the certificate; nobody checks it.
const CERTIFICATE_NAME: &str = "ctld";

/// Why there is no key pair.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The derivation failed.
    #[error("no TLS key can be derived from the cluster key")]
    Derive,
    /// No certificate could be made of it.
    #[error("no TLS certificate can be made of the cluster key")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused it.
    #[error("the TLS key cannot be used")]
    Configure(#[from] rustls::Error),
}

/// The controller's key pair.
#[derive(Clone)]
pub struct ServerKey {
    seed: [u8; SEED_BYTES],
    pin: Pin,
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({})", self.pin)
    }
}

impl ServerKey {
    /// The key pair that belongs to a cluster key.
    ///
    /// # Errors
    /// [`KeyError::Derive`], which no cluster key causes.
    pub fn derive(cluster_key: &[u8]) -> Result<Self, KeyError> {
        let mut seed = [0; SEED_BYTES];
        Salt::new(HKDF_SHA256, &[])
            .extract(cluster_key)
            .expand(&[LABEL], HKDF_SHA256)
            .and_then(|material| material.fill(&mut seed))
            .map_err(|_| KeyError::Derive)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::Derive)?;
        let mut spki = SPKI_PREFIX.to_vec();
        spki.extend_from_slice(pair.public_key().as_ref());
        Ok(ServerKey {
            seed,
            pin: Pin::of_spki(&spki),
        })
    }

    /// By what peers know it.
    #[must_use]
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// Makes the certificate, and what accepts connections with it.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn acceptor(&self) -> Result<Acceptor, KeyError> {
        let mut pkcs8 = PKCS8_PREFIX.to_vec();
        pkcs8.extend_from_slice(&self.seed);
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8);
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519)?;
        let mut params = CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()])?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, CERTIFICATE_NAME);
        params.distinguished_name = name;
        let certificate = params.self_signed(&pair)?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_protocol_versions(&[&TLS13])?
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(pkcs8))?;
        config.alpn_protocols = vec![ALPN_H2.to_vec()];
        // Commands live for one connection, agents for one in a long time: nothing is worth resuming.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Acceptor::new(config))
    }
}

/// SHA-256 of the controller's public key (SubjectPublicKeyInfo, DER). Text: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// Text that is no pin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fingerprint of a key: it has the form sha256: and 64 hexadecimal digits")]
pub struct ParsePinError(String);

impl Pin {
    pub(crate) fn of_spki(spki: &[u8]) -> Self {
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, spki).as_ref());
        Pin(pin)
    }

    /// Reads a file that [`Pin::publish`] wrote; `None` when there is none or it cannot be read.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn read(path: &Path) -> Result<Option<Self>, ParsePinError> {
        match fs::read_to_string(path) {
            Ok(text) => text.trim().parse().map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Writes [`PIN_FILE`] in a folder, readable for all. A file that says the same already is left alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn publish(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(PIN_FILE);
        let text = format!("{self}\n");
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let temporary = folder.join(format!("{PIN_FILE}.new.{}", std::process::id()));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&temporary)?;
        let written = file
            .set_permissions(fs::Permissions::from_mode(0o644))
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pin {
    type Err = ParsePinError;

    fn from_str(text: &str) -> Result<Self, ParsePinError> {
        let parse = || {
            let digits = text.strip_prefix("sha256:")?.as_bytes();
            let mut pin = [0; 32];
            if digits.len() != 2 * pin.len() {
                return None;
            }
            for (byte, pair) in pin.iter_mut().zip(digits.chunks_exact(2)) {
                let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
                *byte = u8::try_from(high? * 16 + low?).ok()?;
            }
            Some(Pin(pin))
        };
        parse().ok_or_else(|| ParsePinError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, a new version of ours (or of a library) could give a cluster another pin, and lock out every command that
    /// has the old one. The values were computed with HMAC-SHA256 of another library and OpenSSL.
    #[test]
    fn the_pin_of_a_cluster_key_stays_what_it_was() {
        for (cluster_key, pin) in [
            (
                &[9_u8; 32][..],
                "sha256:7c5d0bdc5f5e55b252a1a67f21c694a5b6930a3018fcef7f3dcd9306ff5fca80",
            ),
            (
                b"0123456789abcdef",
                "sha256:5f4801e8ad48ea1015432ae350b596d3e192f8ca316b047c55cbd6af636d0e64",
            ),
        ] {
            let key = ServerKey::derive(cluster_key).expect("derived");
            assert_eq!(key.pin().to_string(), pin);
            assert!(!format!("{key:?}").contains(&format!("{:?}", key.seed)));
        }
    }

    #[test]
    fn a_pin_is_read_as_it_is_written_and_nothing_else_is() {
        let pin = ServerKey::derive(&[1; 32]).expect("derived").pin();
        let text = pin.to_string();
        assert_eq!(text.parse(), Ok(pin));
        assert_eq!(
            text.to_uppercase().replace("SHA256", "sha256").parse(),
            Ok(pin)
        );
        for bad in ["", "sha256:", &text[7..], &text[..70], &format!("{text}0")] {
            assert!(bad.parse::<Pin>().is_err(), "{bad}");
        }
        assert!(text.replace(&text[7..9], "+f").parse::<Pin>().is_err());
        assert!(format!("sha256:{}", "é".repeat(32)).parse::<Pin>().is_err());
    }

    #[test]
    fn the_file_is_for_everybody_and_follows_the_key() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("ctld.pub");
        assert_eq!(Pin::read(&path), Ok(None));
        for key in [[1; 32], [2; 32], [2; 32]] {
            let pin = ServerKey::derive(&key).expect("derived").pin();
            pin.publish(folder.path()).expect("written");
            assert_eq!(Pin::read(&path), Ok(Some(pin)));
        }
        let mode = fs::metadata(&path).expect("facts").permissions().mode();
        assert_eq!(mode & 0o7777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
        fs::write(&path, "sha256:nonsense").expect("write");
        assert!(Pin::read(&path).is_err());
    }
}
