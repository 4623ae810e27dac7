//! Connections: the Unix socket first, then TCP with a token.
//!
//! Invariant: an error carries the text that Slurm's commands print for it. Source: the commands' output without a controller.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1::accounting_client::AccountingClient;
use sluice_proto::v1::admin_client::AdminClient;
use sluice_proto::v1::scheduler_client::SchedulerClient;
use sluice_proto::{ConvertError, error_code_of};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::{Settings, SettingsError, address};

/// How long opening a TCP connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
        for path in settings.socket_candidates() {
            match connect_unix(&path).await {
                Ok(channel) => return Ok(client(channel, Credential(None))),
                Err(reason) => detail = format!("{}: {reason}", path.display()),
            }
        }
        for host in &settings.controllers {
            match connect_tcp(host, settings.port).await {
                Ok(channel) => return Ok(client(channel, Credential(find_token(settings)))),
                Err(reason) => detail = format!("{host}:{}: {reason}", settings.port),
            }
        }
        Err(ClientError::Contact { detail })
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
    endpoint.connect().await.map_err(|error| error.to_string())
}

async fn connect_tcp(host: &str, port: u16) -> Result<Channel, String> {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_string()
    };
    Endpoint::from_shared(format!("http://{host}:{port}"))
        .map_err(|error| error.to_string())?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .connect()
        .await
        .map_err(|error| error.to_string())
}

/// The token of SLURM_JWT, else one from the agent of this machine.
fn find_token(settings: &Settings) -> Option<MetadataValue<Ascii>> {
    let token = std::env::var("SLURM_JWT")
        .ok()
        .filter(|token| !token.is_empty())
        .or_else(|| agent_token(settings))?;
    format!("Bearer {token}").parse().ok()
}

fn agent_token(settings: &Settings) -> Option<String> {
    let host = address::short_hostname();
    let node = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| host.clone());
    let stream = UnixStream::connect(settings.token_socket(&host, &node)).ok()?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_string())
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
}
