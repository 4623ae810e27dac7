//! The port at which the nodes of a step report.
//!
//! Both sides show each other that they know the step's secret, which is never sent ([`sluice_frames::handshake`]); a connection that
//! cannot is dropped. Frames become events in their order.

use std::net::{IpAddr, SocketAddr};

use sluice_frames::handshake::{Side, proof, same};
use sluice_frames::{Decoder, encode};
use sluice_model::launch::{SrunFrame, StepFrame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::client::address::random_text;

/// Frames that may wait for a slow node.
const FRAMES_PER_NODE_MAX: usize = 64;

/// Events that may wait for srun's own streams.
const EVENTS_MAX: usize = 256;

/// What happened on a connection.
#[derive(Debug)]
pub enum NodeEvent {
    /// A node is there.
    Connected {
        /// Its place in the step.
        node: usize,
        /// Frames to it.
        sender: mpsc::Sender<SrunFrame>,
    },
    /// A frame of a node.
    Frame {
        /// Its place in the step.
        node: usize,
        /// The frame.
        frame: StepFrame,
    },
    /// The connection of a node has ended.
    Closed {
        /// Its place in the step.
        node: usize,
    },
}

/// The listening port.
pub struct Listener {
    /// Where it listens, as the nodes see it.
    pub address: SocketAddr,
    /// What every node must present.
    pub secret: String,
    listener: TcpListener,
}

impl Listener {
    /// Listens on a free port; `ip` is how nodes reach this machine.
    pub async fn bind(ip: IpAddr, secret: String) -> std::io::Result<Self> {
        // On a loopback cluster nobody outside needs to see the port.
        let bind = if ip.is_loopback() {
            SocketAddr::new(ip, 0)
        } else if ip.is_ipv4() {
            ([0, 0, 0, 0], 0).into()
        } else {
            (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let listener = TcpListener::bind(bind).await?;
        let port = listener.local_addr()?.port();
        Ok(Self {
            address: SocketAddr::new(ip, port),
            secret,
            listener,
        })
    }

    /// Accepts connections from now on; the events come from the receiver.
    #[must_use]
    pub fn start(self) -> mpsc::Receiver<NodeEvent> {
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(async move {
            while let Ok((stream, _)) = self.listener.accept().await {
                let (events, secret) = (events.clone(), self.secret.clone());
                tokio::spawn(async move { serve(stream, &secret, events).await });
            }
        });
        receiver
    }
}

async fn serve(stream: TcpStream, secret: &str, events: mpsc::Sender<NodeEvent>) {
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.into_split();
    let mut decoder = Decoder::default();
    let Some(StepFrame::Hello {
        nonce, node_index, ..
    }) = next_frame(&mut reader, &mut decoder).await
    else {
        return;
    };
    let own = random_text();
    let challenge = SrunFrame::Challenge {
        proof: proof(secret, Side::Srun, &nonce, &own),
        nonce: own.clone(),
    };
    let Ok(bytes) = encode(&challenge) else {
        return;
    };
    if writer.write_all(&bytes).await.is_err() {
        return;
    }
    match next_frame(&mut reader, &mut decoder).await {
        Some(StepFrame::Proof { proof: shown })
            if same(&shown, &proof(secret, Side::Step, &nonce, &own)) => {}
        _ => return,
    }
    let node = node_index as usize;
    let (sender, frames) = mpsc::channel(FRAMES_PER_NODE_MAX);
    tokio::spawn(send_frames(writer, frames));
    let _ = sender.send(SrunFrame::Welcome).await;
    if events
        .send(NodeEvent::Connected { node, sender })
        .await
        .is_err()
    {
        return;
    }
    while let Some(frame) = next_frame(&mut reader, &mut decoder).await {
        if events.send(NodeEvent::Frame { node, frame }).await.is_err() {
            return;
        }
    }
    let _ = events.send(NodeEvent::Closed { node }).await;
}

/// The next frame; `None` at the end or when the peer speaks something else.
async fn next_frame(reader: &mut OwnedReadHalf, decoder: &mut Decoder) -> Option<StepFrame> {
    let mut chunk = vec![0; 32 * 1024];
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(_) => return None,
        }
        match reader.read(&mut chunk).await {
            Ok(length) if length > 0 => decoder.push(&chunk[..length]),
            _ => return None,
        }
    }
}

async fn send_frames(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<SrunFrame>) {
    while let Some(frame) = frames.recv().await {
        let Ok(bytes) = encode(&frame) else { continue };
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_frames::{read_frame, write_frame};
    use std::net::{Ipv4Addr, TcpStream as StdStream};

    fn hello(nonce: &str) -> StepFrame {
        StepFrame::Hello {
            secret: String::new(),
            node: "n1".to_string(),
            node_index: 0,
            task_ids: vec![0],
            nonce: nonce.to_string(),
        }
    }

    /// A step daemon that believes in `secret`; gives the answer to its proof.
    fn call(address: SocketAddr, secret: &str) -> (StdStream, Option<SrunFrame>) {
        let mut stream = StdStream::connect(address).expect("connects");
        write_frame(&mut stream, &hello("step")).expect("writes");
        let Ok(Some(SrunFrame::Challenge {
            nonce,
            proof: shown,
        })) = read_frame::<_, SrunFrame>(&mut stream)
        else {
            panic!("no challenge")
        };
        let known = shown == proof(secret, Side::Srun, "step", &nonce);
        assert_eq!(known, secret == "right");
        let answer = StepFrame::Proof {
            proof: proof(secret, Side::Step, "step", &nonce),
        };
        write_frame(&mut stream, &answer).expect("writes");
        let reply = read_frame::<_, SrunFrame>(&mut stream).ok().flatten();
        (stream, reply)
    }

    /// A node with the secret is welcomed and heard; one without is not.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn secrets() {
        let listener = Listener::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), "right".to_string())
            .await
            .expect("binds");
        let address = listener.address;
        let mut events = listener.start();
        let stranger = tokio::task::spawn_blocking(move || call(address, "wrong").1);
        assert_eq!(stranger.await.expect("joins"), None);
        let node = tokio::task::spawn_blocking(move || {
            let (mut stream, welcome) = call(address, "right");
            write_frame(&mut stream, &StepFrame::Done).expect("writes");
            welcome
        });
        assert!(matches!(
            events.recv().await,
            Some(NodeEvent::Connected { node: 0, .. })
        ));
        assert!(matches!(
            events.recv().await,
            Some(NodeEvent::Frame {
                node: 0,
                frame: StepFrame::Done
            })
        ));
        assert_eq!(node.await.expect("joins"), Some(SrunFrame::Welcome));
        assert!(matches!(
            events.recv().await,
            Some(NodeEvent::Closed { node: 0 })
        ));
    }
}
