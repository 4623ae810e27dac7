//! Dialling the controller: TCP, then TLS with the pinned key.
//!
//! Names and dates in the certificate are not looked at: the key is the identity. A wrong key is an error of its own, so that
//! nobody takes it for a controller that is not there and tries on.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::key::Pin;
use crate::{ALPN_H2, PIN_FILE, PIN_VARIABLE};

/// A connection to the controller.
pub type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Whom a dialler takes for the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Whoever has this key.
    Pinned(Pin),
    /// No pin is known: whoever answers on a loopback address, nobody else.
    LoopbackOnly,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody answers, or the connection broke.
    #[error("cannot connect")]
    Io(#[source] io::Error),
    /// The TLS handshake failed.
    #[error(
        "what answers at {address} speaks no TLS as ctld does: {reason}\n\nhint: is it another program, or a ctld of an older version?"
    )]
    Handshake {
        /// Address that was dialled.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Somebody else answers.
    #[error(
        "what answers at {address} does not have this cluster's key {expected}\n\nhint: it is the controller of another cluster, \
         or the cluster key was changed since: get the present fingerprint from the file {PIN_FILE} in ctld's StateSaveLocation"
    )]
    WrongKey {
        /// Address that was dialled.
        address: SocketAddr,
        /// What it should have.
        expected: Pin,
    },
    /// Not dialled any further.
    #[error(
        "the controller at {address} cannot be verified, because its key is not known here\n\nhint: copy the file {PIN_FILE} from \
         ctld's StateSaveLocation to the folder of slurm.conf, or set {PIN_VARIABLE} to the fingerprint in it"
    )]
    NoPin {
        /// Address that was dialled.
        address: SocketAddr,
    },
    /// The TLS library refused our settings.
    #[error("TLS cannot be set up")]
    Configure(#[source] rustls::Error),
}

impl DialError {
    /// The dial error behind another one, such as a channel's.
    #[must_use]
    pub fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a DialError> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// False when the same dial may succeed a moment later without any change here.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, DialError::Io(_))
    }
}

/// Connects to a controller.
///
/// # Errors
/// [`DialError`].
pub async fn dial(host: &str, port: u16, trust: Trust) -> Result<ClientStream, DialError> {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(DialError::Io)?;
    // Small messages must not wait for each other's acknowledgement.
    stream.set_nodelay(true).map_err(DialError::Io)?;
    let address = stream.peer_addr().map_err(DialError::Io)?;
    if trust == Trust::LoopbackOnly && !address.ip().to_canonical().is_loopback() {
        return Err(DialError::NoPin { address });
    }
    let config = client_config(trust).map_err(DialError::Configure)?;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::IpAddress(address.ip().into()), stream)
        .await
        .map_err(|error| explain(error, address, trust))
}

/// What a channel dials with, again after a loss; the address in its URI is not used.
pub fn connector<U: 'static>(
    host: &str,
    port: u16,
    trust: Trust,
) -> impl Service<
    U,
    Response = TokioIo<ClientStream>,
    Error = DialError,
    Future = impl Future<Output = Result<TokioIo<ClientStream>, DialError>> + Send + use<U>,
> + Send
+ use<U> {
    let host: Arc<str> = host.into();
    tower::service_fn(move |_: U| {
        let host = Arc::clone(&host);
        async move { dial(&host, port, trust).await.map(TokioIo::new) }
    })
}

fn explain(error: io::Error, address: SocketAddr, trust: Trust) -> DialError {
    let of_tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (of_tls, trust) {
        (
            Some(rustls::Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
            Trust::Pinned(expected),
        ) => DialError::WrongKey { address, expected },
        (Some(of_tls), _) => DialError::Handshake {
            address,
            reason: of_tls.to_string(),
        },
        (None, _) => DialError::Io(error),
    }
}

fn client_config(trust: Trust) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = PinVerifier {
        trust,
        provider: Arc::clone(&provider),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Accepts the pinned key. That the server has its private half is proved by the handshake's signature.
struct PinVerifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for PinVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinVerifier({:?})", self.trust)
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Trust::Pinned(pin) = self.trust {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            if Pin::of_spki(&certificate.subject_public_key_info()) != pin {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 is needed".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
