//! Tests over real sockets: who gets in, who does not, and what is left behind.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use sluice_tls::{DialError, ServerKey, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint};
use tower::{Service, ServiceExt};

use super::*;
use crate::auth::{Identity, TokenKey, TokenSubject, UserDirectory};

/// Answers with what the listener found out about the caller.
#[derive(Clone)]
struct WhoAmI;

impl NamedService for WhoAmI {
    const NAME: &'static str = "test.WhoAmI";
}

impl Service<Request<Body>> for WhoAmI {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let who = request.extensions().get::<Identity>().map_or_else(
            || "nobody".to_owned(),
            |identity| {
                format!(
                    "{}:{}:{}",
                    identity.uid,
                    identity.user_name,
                    identity.agent_node().unwrap_or("-")
                )
            },
        );
        ready(Ok(Response::builder()
            .header("who", who)
            .header("grpc-status", "0")
            .body(Body::empty())
            .expect("response")))
    }
}

struct Running {
    _dir: tempfile::TempDir,
    socket: std::path::PathBuf,
    address: std::net::SocketAddr,
    key: Arc<TokenKey>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Result<(), ListenError>>,
}

async fn start(options: ServeOptions) -> Running {
    let dir = tempfile::tempdir().expect("folder");
    let unix = bind_unix(&[
        dir.path().join("missing").join("s"),
        dir.path().join("ctld.sock"),
    ])
    .expect("unix");
    let socket = unix.path().to_owned();
    let key = Arc::new(TokenKey::from_bytes(&[9; 32]).expect("key"));
    let acceptor = key.server_key().acceptor().expect("certificate");
    let tcp = bind_tcp("127.0.0.1:0".parse().expect("address"), acceptor)
        .await
        .expect("tcp");
    let address = tcp.local_addr();
    let auth = Arc::new(Authenticator::new(key.clone(), UserDirectory::default()));
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(serve(
        Some(unix),
        vec![tcp],
        Routes::new(WhoAmI),
        auth,
        stopped,
        options,
    ));
    Running {
        _dir: dir,
        socket,
        address,
        key,
        stop,
        task,
    }
}

async fn local(path: &Path) -> Channel {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move {
            tokio::net::UnixStream::connect(path)
                .await
                .map(TokioIo::new)
        }
    });
    Endpoint::from_static("http://ctld")
        .connect_with_connector(connector)
        .await
        .expect("connect")
}

async fn dial(
    address: std::net::SocketAddr,
    trust: Trust,
) -> Result<Channel, tonic::transport::Error> {
    let connector = sluice_tls::connector(&address.ip().to_string(), address.port(), trust);
    Endpoint::from_static("http://ctld")
        .connect_with_connector(connector)
        .await
}

async fn remote(address: std::net::SocketAddr) -> Channel {
    let pin = ServerKey::derive(&[9; 32]).expect("key").pin();
    dial(address, Trust::Pinned(pin)).await.expect("connect")
}

/// (`grpc-status`, the `who` header or the message)
async fn ask(channel: &mut Channel, authorization: Option<&str>) -> (String, String) {
    let mut request = Request::post("http://ctld/test.WhoAmI/Ask")
        .body(Body::empty())
        .expect("request");
    if let Some(value) = authorization {
        request
            .headers_mut()
            .insert("authorization", value.parse().expect("header"));
    }
    let response = channel
        .ready()
        .await
        .expect("ready")
        .call(request)
        .await
        .expect("answer");
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .map(|value| value.to_str().expect("text").to_owned())
    };
    (
        header("grpc-status").expect("status"),
        header("who")
            .or_else(|| header("grpc-message"))
            .unwrap_or_default(),
    )
}

fn token(key: &TokenKey, subject: &TokenSubject, lifespan_secs: i64) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("clock")
        .as_secs();
    let issued = if lifespan_secs > 0 {
        now as i64
    } else {
        now as i64 - 100
    };
    format!(
        "Bearer {}",
        key.issue(subject, issued, lifespan_secs.abs())
            .expect("issue")
    )
}

fn subject(name: &str, uid: u32, agent: Option<&str>) -> TokenSubject {
    TokenSubject {
        user_name: name.to_owned(),
        uid: Some(uid),
        agent: agent.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_local_caller_is_who_the_kernel_says() {
    let running = start(ServeOptions::default()).await;
    let mode = std::fs::metadata(&running.socket)
        .expect("socket")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o666);
    let mut channel = local(&running.socket).await;
    let me = nix::unistd::geteuid().as_raw();
    let name = UserDirectory::default()
        .by_uid(me)
        .expect("lookup")
        .map_or(me.to_string(), |user| user.name);
    let mine = ("0".to_owned(), format!("{me}:{name}:-"));
    assert_eq!(ask(&mut channel, None).await, mine);
    // A user's token does not change who calls; an agent's does.
    let other = token(&running.key, &subject("someone", 4242, None), 60);
    assert_eq!(ask(&mut channel, Some(&other)).await, mine);
    let agent = token(&running.key, &subject("root", 0, Some("n1")), 60);
    assert_eq!(
        ask(&mut channel, Some(&agent)).await,
        ("0".to_owned(), "0:root:n1".to_owned())
    );
}

#[tokio::test]
async fn a_remote_caller_needs_a_token() {
    let running = start(ServeOptions::default()).await;
    let mut channel = remote(running.address).await;
    let unauthenticated = tonic::Code::Unauthenticated as i32;
    let (status, text) = ask(&mut channel, None).await;
    assert_eq!(status, unauthenticated.to_string());
    assert!(
        text.contains("no%20credential") && text.contains("SLURM_JWT"),
        "{text}"
    );

    let alice = subject("someone", 4242, None);
    assert_eq!(
        ask(&mut channel, Some(&token(&running.key, &alice, 60))).await,
        ("0".to_owned(), "4242:someone:-".to_owned())
    );
    let stranger = TokenKey::from_bytes(&[1; 32]).expect("key");
    for (value, says) in [
        (token(&running.key, &alice, -50), "expired"),
        (token(&stranger, &alice, 60), "signature"),
        ("Bearer nonsense".to_owned(), "well%20formed"),
        ("Basic abc".to_owned(), "Bearer"),
    ] {
        let (status, text) = ask(&mut channel, Some(&value)).await;
        assert_eq!(status, unauthenticated.to_string(), "{value}");
        assert!(text.contains(says), "{text}");
    }
}

/// Without this, a caller could be led to another server, and give it the token.
#[tokio::test]
async fn a_remote_caller_gets_no_further_with_another_key() {
    let running = start(ServeOptions::default()).await;
    let other = ServerKey::derive(&[8; 32]).expect("key").pin();
    let error = dial(running.address, Trust::Pinned(other))
        .await
        .expect_err("refused");
    let found = DialError::behind(&error).expect("a reason that can be told");
    assert!(matches!(found, DialError::WrongKey { .. }), "{found}");
    let mut channel = dial(running.address, Trust::LoopbackOnly)
        .await
        .expect("a loopback address needs no pin");
    assert_eq!(ask(&mut channel, None).await.0, "16");
}

/// Without this, tokens could travel in the clear.
#[tokio::test]
async fn what_is_not_tls_is_closed_without_an_answer() {
    let running = start(ServeOptions::default()).await;
    for hello in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut plain = tokio::net::TcpStream::connect(running.address)
            .await
            .expect("connect");
        plain.write_all(hello).await.expect("write");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(5), plain.read_to_end(&mut answer));
        // Closed with what it sent still unread, so the close may arrive as a reset.
        let _ = read.await.expect("closed at once");
        assert_eq!(answer, b"");
    }
    let plain = Endpoint::from_shared(format!("http://{}", running.address)).expect("address");
    if let Ok(channel) = plain.connect().await {
        let request = Request::post("http://ctld/test.WhoAmI/Ask")
            .body(Body::empty())
            .expect("request");
        let mut channel = channel;
        let answer = match channel.ready().await {
            Ok(channel) => channel.call(request).await,
            Err(error) => Err(error),
        };
        answer.expect_err("no request is answered");
    }
    assert_eq!(
        ask(&mut remote(running.address).await, None).await.0,
        "16",
        "others are served"
    );
}

#[tokio::test]
async fn stopping_ends_the_service_and_removes_the_socket() {
    let running = start(ServeOptions::default()).await;
    let mut channel = remote(running.address).await;
    ask(&mut channel, None).await;
    running.stop.send(true).expect("running");
    running.task.await.expect("task").expect("a clean end");
    assert!(!running.socket.exists());
    assert!(
        tokio::net::TcpStream::connect(running.address)
            .await
            .is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_dropped() {
    let options = ServeOptions {
        first_byte_deadline: Duration::from_millis(200),
        ..ServeOptions::default()
    };
    let running = start(options).await;
    // The second one begins a handshake (a record of 512 bytes) and does not go on.
    for hello in [&b""[..], b"\x16\x03\x01\x02\0\x01"] {
        let mut silent = tokio::net::TcpStream::connect(running.address)
            .await
            .expect("connect");
        silent.write_all(hello).await.expect("write");
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_secs(10), silent.read(&mut byte))
            .await
            .expect("dropped in time");
        assert_eq!(read.expect("closed"), 0);
    }
    assert_eq!(
        ask(&mut remote(running.address).await, None).await.0,
        "16",
        "others are served"
    );
}

#[tokio::test]
async fn only_a_socket_that_nobody_listens_on_is_replaced() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("ctld.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("leaves its file behind"));
    assert!(path.exists());
    let first = bind_unix(std::slice::from_ref(&path)).expect("the stale file is replaced");
    let refused = bind_unix(std::slice::from_ref(&path)).expect_err("in use");
    assert!(matches!(refused, ListenError::InUse { .. }), "{refused}");
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());
    std::fs::write(&path, b"precious").expect("write");
    let refused = bind_unix(std::slice::from_ref(&path))
        .expect_err("not a socket")
        .to_string();
    assert!(refused.contains("is not a socket"), "{refused}");
    assert_eq!(std::fs::read(&path).expect("kept"), b"precious");
}

#[test]
fn candidates_are_beside_the_pid_file_then_in_the_state_folder() {
    let found = unix_candidates(
        Path::new("/run/slurm/slurmctld.pid"),
        "lab",
        Path::new("/var/spool/ctld"),
    );
    assert_eq!(
        found,
        [
            Path::new("/run/slurm/ctld.lab.sock"),
            Path::new("/var/spool/ctld/ctld.sock")
        ]
    );
}
