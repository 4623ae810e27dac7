//! Messages between agents, step daemons, `srun` and the controller, and tokens.

use sluice_ctld::auth::{TokenKey, TokenSubject};
use sluice_frames::Decoder;
use sluice_model::exit_status::WaitStatus;
use sluice_model::ids::{JobId, StepId};
use sluice_model::launch::{
    AgentReport, ReportEnvelope, SrunFrame, StepExit, StepFrame, StepUsage,
};
use sluice_model::node::{NodeHardware, NodeLoad};
use sluice_model::time::UnixSeconds;
use sluice_proto::v1::{AgentMessage, ControllerMessage};
use sluice_proto::{decode_order, decode_report, encode_report};

use crate::Target;
use crate::mutate::{Kind, join_records, split_records};

/// What an agent of `n1` says in its life.
pub(crate) fn reports() -> Vec<ReportEnvelope> {
    let (job_id, step_id) = (JobId(1), StepId::Batch);
    let all = [
        AgentReport::Register {
            node: "n1".to_owned(),
            hardware: NodeHardware {
                cpus: 4,
                boards: 1,
                sockets: 1,
                cores_per_socket: 4,
                threads_per_core: 1,
                real_memory: sluice_model::memory::MemoryMib(4_000),
                tmp_disk_mib: 1_000,
                gres: Vec::new(),
                arch: "x86_64".to_owned(),
                os: "Linux".to_owned(),
                hostname: "h".to_owned(),
                ..NodeHardware::default()
            },
            steps: Vec::new(),
            jobs: vec![(job_id, 0)],
            config_version: 1,
            health_error: None,
        },
        AgentReport::Heartbeat {
            load: NodeLoad::default(),
        },
        AgentReport::PrologDone {
            job_id,
            attempt: 0,
            error: None,
        },
        AgentReport::StepStarted {
            job_id,
            attempt: 0,
            step_id,
            pids: vec![7],
        },
        AgentReport::StepEnded(StepExit {
            job_id,
            attempt: 0,
            step_id,
            tasks: vec![(0, WaitStatus(256))],
            launch_error: None,
            usage: StepUsage::default(),
            end_time: UnixSeconds(1_796_013_660),
        }),
        AgentReport::EpilogDone {
            job_id,
            attempt: 0,
            error: None,
        },
        AgentReport::Usage {
            request: 1,
            step_id,
            usage: Some(StepUsage::default()),
            pids: vec![7],
        },
        AgentReport::Drain {
            reason: "broken".to_owned(),
        },
    ];
    all.into_iter()
        .enumerate()
        .map(|(nth, report)| ReportEnvelope {
            sequence: nth as u64,
            report,
        })
        .collect()
}

fn envelopes() -> Vec<Vec<u8>> {
    let records: Vec<Vec<u8>> = reports()
        .iter()
        .filter_map(|report| encode_report(report).ok())
        .map(|message| message.payload)
        .collect();
    vec![join_records(&records)]
}

/// Reports and orders.
pub const ENVELOPE: Target = Target {
    name: "envelope",
    seeds: envelopes,
    mutation: Kind::Records,
    run: |input| {
        for payload in split_records(input) {
            let payload = payload.to_vec();
            let report = AgentMessage {
                format: 1,
                payload: payload.clone(),
            };
            if let Ok(envelope) = decode_report(&report) {
                let again = encode_report(&envelope).expect("what was read can be written");
                assert_eq!(decode_report(&again).expect("and read again"), envelope);
            }
            let _ = decode_order(&ControllerMessage { format: 1, payload });
        }
    },
    reset: None,
};

/// Frames of `srun` and step daemons.
pub const FRAMES: Target = Target {
    name: "frames",
    seeds: || {
        let frames = [
            sluice_frames::encode(&SrunFrame::Input {
                task: Some(1),
                data: b"text".to_vec(),
            }),
            sluice_frames::encode(&SrunFrame::Signal { signal: 9 }),
            sluice_frames::encode(&StepFrame::Hello {
                secret: "secret".to_owned(),
                node: "n1".to_owned(),
                node_index: 0,
                task_ids: vec![0, 1],
                nonce: "nonce".to_owned(),
            }),
        ];
        let whole: Vec<Vec<u8>> = frames.into_iter().flatten().collect();
        let mut seeds = vec![whole.concat()];
        seeds.extend(whole);
        seeds
    },
    mutation: Kind::Bytes,
    run: |input| {
        let mut reader = input;
        while let Ok(Some(_)) = sluice_frames::read_frame::<_, StepFrame>(&mut reader) {}
        // In pieces as in one: what a stream's pieces are is chance.
        let mut in_pieces = Decoder::default();
        let mut found = Vec::new();
        for piece in input.chunks(3) {
            in_pieces.push(piece);
            while let Ok(Some(frame)) = in_pieces.next_frame::<SrunFrame>() {
                found.push(frame);
            }
        }
        let mut at_once = Decoder::default();
        at_once.push(input);
        let mut expected = Vec::new();
        while let Ok(Some(frame)) = at_once.next_frame::<SrunFrame>() {
            expected.push(frame);
        }
        assert_eq!(found, expected);
    },
    reset: None,
};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_796_013_660;

/// Tokens.
pub const TOKEN: Target = Target {
    name: "token",
    seeds: || {
        let key = TokenKey::from_bytes(SECRET).expect("key");
        let token = |agent: Option<&str>| {
            let subject = TokenSubject {
                user_name: "ada".to_owned(),
                uid: Some(1_000),
                agent: agent.map(str::to_owned),
            };
            key.issue(&subject, NOW, 60).expect("token").into_bytes()
        };
        vec![token(None), token(Some("n1"))]
    },
    mutation: Kind::Text,
    run: |input| {
        thread_local! {
            static KEY: TokenKey = TokenKey::from_bytes(SECRET).expect("key");
            static GOOD: Vec<Vec<u8>> = (TOKEN.seeds)();
        }
        let text = String::from_utf8_lossy(input);
        if KEY.with(|key| key.verify(&text, NOW)).is_ok() {
            let is_ours = GOOD.with(|good| good.iter().any(|one| one == input));
            assert!(is_ours, "a token that we did not issue is believed: {text}");
        }
    },
    reset: None,
};
