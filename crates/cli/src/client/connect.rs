//! Connections: the Unix socket first, then TCP with TLS and a token; with SLURM_JWT set TCP alone.
//!
//! Invariant: an error carries the text that Slurm's commands print for it. Source: the commands' output without a controller.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1::accounting_client::AccountingClient;
use sluice_proto::v1::admin_client::AdminClient;
use sluice_proto::v1::automation_client::AutomationClient;
use sluice_proto::v1::diagnostics_client::DiagnosticsClient;
use sluice_proto::v1::priority_client::PriorityClient;
use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::{ConvertError, error_code_of};
use sluice_tls::{DialError, Trust};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::credentials::Credentials;
use super::{Settings, SettingsError};

/// How long opening a TCP connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an answer may be under way.
const WINDOW_BYTES: u32 = 4 << 20;

/// Pause between two attempts to reach a controller that is not there.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// No configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No controller, or it went away during the call.
    #[error("{}", ErrorCode::ContactController.message())]
    Contact {
        /// What happened, for `-v`.
        detail: String,
    },
    /// The controller refused; `text` is what it says.
    #[error("{text}")]
    Refused {
        /// Slurm's number.
        code: ErrorCode,
        /// Text, usually Slurm's own for the code; lines before the last one say more.
        text: String,
        /// What to do about it, or what exactly is wrong.
        hint: Option<String>,
    },
    /// What answers is not known to be the controller, and was told nothing.
    /// The text says what to do, because no command can do without it.
    #[error("{0}")]
    Untrusted(String),
    /// The caller is not believed.
    #[error("{0}")]
    Unauthenticated(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl ClientError {
    /// A refusal; words that go beyond Slurm's own text for the code become its hint, so that the text stays comparable.
    #[must_use]
    pub fn refused(code: ErrorCode, text: &str) -> Self {
        let (text, hint) = match text.split_once("\n\n") {
            Some((text, hint)) => (text, Some(hint)),
            None => (text, None),
        };
        let words = text
            .strip_prefix(code.message())
            .and_then(|rest| rest.strip_prefix(": "));
        let (text, hint) = match (words, hint) {
            (Some(words), None) => (code.message(), Some(words)),
            _ => (text, hint),
        };
        let hint = hint.map(|hint| hint.trim().trim_start_matches("hint: ").to_string());
        ClientError::Refused {
            code,
            text: text.to_string(),
            hint,
        }
    }

    /// What to do about it, if the controller said.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            ClientError::Refused { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }

    /// Slurm's number, if the controller named one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused { code, .. } => Some(*code),
            ClientError::Contact { .. } => Some(ErrorCode::ContactController),
            _ => None,
        }
    }

    /// True when the same call may succeed a moment later without any change.
    #[must_use]
    pub fn is_contact(&self) -> bool {
        matches!(self, ClientError::Contact { .. })
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        if let Some(code) = error_code_of(&status) {
            return Self::refused(code, status.message());
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal
                if std::error::Error::source(&status).is_some()
                    || status.code() == Code::Unavailable =>
            {
                ClientError::Contact {
                    detail: status.message().to_string(),
                }
            }
            Code::Unauthenticated => ClientError::Unauthenticated(status.message().to_string()),
            _ => ClientError::Other(status.message().to_string()),
        }
    }
}

impl From<ConvertError> for ClientError {
    fn from(error: ConvertError) -> Self {
        ClientError::Other(error.to_string())
    }
}

/// Puts the token, if there is one, on every call.
#[derive(Debug, Clone)]
pub struct Credential(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// A channel with credentials.
pub type AuthenticatedChannel = InterceptedService<Channel, Credential>;

/// A connection to the controller.
#[derive(Debug, Clone)]
pub struct Client {
    /// The settings it was made from.
    pub settings: Settings,
    channel: Channel,
    credential: Credential,
}

impl Client {
    /// Connects with the configuration of this machine. A controller that is not there is tried again for `patience`.
    pub async fn connect(patience: Duration) -> Result<Self, ClientError> {
        let settings = Settings::find(|name| std::env::var(name).ok())?;
        Self::connect_to(settings, patience).await
    }

    /// As [`Client::connect`], with settings.
    pub async fn connect_to(settings: Settings, patience: Duration) -> Result<Self, ClientError> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::attempt(&settings).await {
                Err(error) if error.is_contact() && Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_PAUSE).await
                }
                result => return result,
            }
        }
    }

    async fn attempt(settings: &Settings) -> Result<Self, ClientError> {
        let client = |channel, credential| Self {
            settings: settings.clone(),
            channel,
            credential,
        };
        let mut detail = String::from("no socket of the controller is there");
        // Whoever sets a token wants to be who it says, which the local socket would not honour.
        let own_token = std::env::var("SLURM_JWT").is_ok_and(|token| !token.is_empty());
        let sockets = if own_token {
            Vec::new()
        } else {
            settings.socket_candidates()
        };
        for path in sockets {
            match connect_unix(&path).await {
                Ok(channel) => return Ok(client(channel, Credential(None))),
                Err(reason) => detail = format!("{}: {reason}", path.display()),
            }
        }
        let Credentials { token, trust } =
            Credentials::find(settings, |name| std::env::var(name).ok())?;
        let mut untrusted = None;
        for host in &settings.controllers {
            match connect_tcp(host, settings.port, trust).await {
                Ok(channel) => return Ok(client(channel, Credential(token))),
                Err(error) => match DialError::behind(&error).filter(|reason| reason.is_final()) {
                    Some(reason) => untrusted = Some(ClientError::Untrusted(reason.to_string())),
                    None => {
                        detail = format!("{host}:{}: {}", settings.port, with_causes(&error));
                    }
                },
            }
        }
        Err(untrusted.unwrap_or(ClientError::Contact { detail }))
    }

    /// Calls about jobs, steps, nodes and partitions.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerClient<AuthenticatedChannel> {
        SchedulerClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// Calls about the controller itself.
    #[must_use]
    pub fn admin(&self) -> AdminClient<AuthenticatedChannel> {
        AdminClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
    }

    /// Calls about the controller's figures and running steps.
    #[must_use]
    pub fn diagnostics(&self) -> DiagnosticsClient<AuthenticatedChannel> {
        DiagnosticsClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
    }

    /// Calls about attaching, triggers and crontabs.
    #[must_use]
    pub fn automation(&self) -> AutomationClient<AuthenticatedChannel> {
        AutomationClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    /// Calls about priorities, shares and usage.
    #[must_use]
    pub fn priority(&self) -> PriorityClient<AuthenticatedChannel> {
        PriorityClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
    }

    /// Calls about accounting.
    #[must_use]
    pub fn accounting(&self) -> AccountingClient<AuthenticatedChannel> {
        AccountingClient::with_interceptor(self.channel.clone(), self.credential.clone())
            .max_decoding_message_size(usize::MAX)
    }
}

async fn connect_unix(path: &Path) -> Result<Channel, String> {
    if !path.exists() {
        return Err("no such file".to_string());
    }
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display()))
        .map_err(|error| error.to_string())?;
    with_windows(endpoint)
        .connect()
        .await
        .map_err(|error| error.to_string())
}

/// Listings are megabytes: with the protocol's 64 KiB the controller would wait for permission again and again.
fn with_windows(endpoint: Endpoint) -> Endpoint {
    endpoint
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
}

async fn connect_tcp(
    host: &str,
    port: u16,
    trust: Trust,
) -> Result<Channel, tonic::transport::Error> {
    // The URI is only the requests' form: the connector knows whom to dial, and TLS is its business.
    with_windows(Endpoint::from_static("http://ctld"))
        .connect_timeout(CONNECT_TIMEOUT)
        .connect_with_connector(sluice_tls::connector(host, port, trust))
        .await
}

/// An error and what is behind it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::status_from;

    /// Codes and texts of the controller arrive unchanged.
    #[test]
    fn refusals() {
        let error = ClientError::from(status_from(ErrorCode::InvalidJobId, ""));
        assert_eq!(error.code(), Some(ErrorCode::InvalidJobId));
        assert_eq!(error.to_string(), "Invalid job id specified");
        let more = ClientError::from(status_from(
            ErrorCode::Dependency,
            "Job dependency problem: unknown type",
        ));
        assert_eq!(
            (more.to_string().as_str(), more.hint()),
            ("Job dependency problem", Some("unknown type"))
        );
        let hinted = ClientError::from(status_from(
            ErrorCode::InvalidNodeName,
            "a\nInvalid node name specified\n\nhint: x",
        ));
        assert_eq!(
            (hinted.to_string().as_str(), hinted.hint()),
            ("a\nInvalid node name specified", Some("x"))
        );
        let gone = ClientError::from(Status::unavailable("tcp connect error"));
        assert!(gone.is_contact());
        assert_eq!(
            gone.to_string(),
            "Unable to contact slurm controller (connect failure)"
        );
    }

    /// A server with another key is told apart from one that is not there, at once, and says what to do.
    #[tokio::test]
    async fn another_server_is_not_taken_for_the_controller() {
        let folder = tempfile::tempdir().expect("folder");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("listen");
        let port = listener.local_addr().expect("address").port();
        let conf = folder.path().join("slurm.conf");
        std::fs::write(
            &conf,
            format!(
                "SlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={port}\nStateSaveLocation={0}\n\
                 SlurmctldPidFile={0}/pid\nSlurmdSpoolDir={0}/spool\n",
                folder.path().display()
            ),
        )
        .expect("write");
        let key = |byte| sluice_tls::ServerKey::derive(&[byte; 32]).expect("derived");
        key(1).pin().publish(folder.path()).expect("written");
        let acceptor = key(2).acceptor().expect("certificate");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        let settings = Settings::read(&conf).expect("readable");
        let begin = Instant::now();
        let error = Client::connect_to(settings, Duration::from_secs(60))
            .await
            .expect_err("refused");
        assert!(begin.elapsed() < Duration::from_secs(30), "not tried again");
        assert!(matches!(error, ClientError::Untrusted(_)), "{error:?}");
        assert!(error.to_string().contains("ctld.pub"), "{error}");
    }
}
