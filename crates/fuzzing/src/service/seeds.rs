//! Valid calls: what inputs of the target `calls` are made from. First byte: index of the method; second: who calls.

use prost::Message;
use sluice_proto::v1;

use super::METHODS;

/// Valid calls: every method, with jobs of several kinds.
pub(super) fn call_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |method: &str, who: u8, message: Vec<u8>| {
        let index = METHODS.iter().position(|have| *have == method);
        let index = index.expect("a known method") as u8;
        seeds.push([vec![index, who], message].concat());
    };
    let job = |key: &str| v1::JobDescription {
        name: Some("j".to_owned()),
        script: Some(b"#!/bin/sh\ntrue\n".to_vec()),
        work_dir: "/tmp".to_owned(),
        environment: vec!["PATH=/bin".to_owned()],
        batch: true,
        uid: u32::MAX,
        gid: u32::MAX,
        submission_key: key.to_owned(),
        umask: 0o022,
        ..Default::default()
    };
    let jobs = [
        job("a"),
        v1::JobDescription {
            array: Some("0-9%2".to_owned()),
            ..job("b")
        },
        v1::JobDescription {
            min_nodes: Some(2),
            max_nodes: Some(3),
            ntasks: Some(4),
            cpus_per_task: Some(2),
            mem_per_cpu: Some(100),
            constraint: Some("x&y".to_owned()),
            ..job("c")
        },
        v1::JobDescription {
            dependency: Some("afterany:1,singleton".to_owned()),
            licenses: Some("matlab:1".to_owned()),
            begin_time: Some(1_900_000_000),
            nice: 5,
            ..job("d")
        },
        v1::JobDescription {
            batch: false,
            script: None,
            required_nodes: Some("n[1-2]".to_owned()),
            excluded_nodes: Some("n3".to_owned()),
            hold: true,
            ..job("")
        },
        v1::JobDescription {
            gres_per_node: vec![v1::GresRequest {
                name: "gpu".to_owned(),
                count: 1,
                ..Default::default()
            }],
            mem_per_node: Some(0),
            ..job("")
        },
    ];
    for (nth, job) in jobs.into_iter().enumerate() {
        for test_only in [false, true] {
            let request = v1::SubmitRequest {
                job: Some(job.clone()),
                test_only,
                components: Vec::new(),
            };
            add("Scheduler/Submit", nth as u8, request.encode_to_vec());
        }
    }
    for (who, target) in ["1", "2_3", "2_[4-9]", "3", "4.0"].into_iter().enumerate() {
        let (who, selectors) = (who as u8 % 3, vec![target.to_owned()]);
        add(
            "Scheduler/SignalJobs",
            who,
            v1::SignalJobsRequest {
                targets: selectors.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        );
        add(
            "Scheduler/UpdateJobs",
            who,
            v1::UpdateJobsRequest {
                selectors: selectors.clone(),
                update: Some(v1::JobUpdate {
                    comment: Some("x".to_owned()),
                    ..Default::default()
                }),
                ..Default::default()
            }
            .encode_to_vec(),
        );
        for kind in 1..=3 {
            add(
                "Scheduler/HoldJobs",
                who,
                v1::HoldJobsRequest {
                    selectors: selectors.clone(),
                    kind,
                }
                .encode_to_vec(),
            );
        }
        add(
            "Scheduler/RequeueJobs",
            who,
            v1::RequeueJobsRequest {
                selectors: selectors.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        );
        add(
            "Scheduler/SuspendJobs",
            who,
            v1::SuspendJobsRequest {
                selectors,
                ..Default::default()
            }
            .encode_to_vec(),
        );
    }
    add(
        "Scheduler/UpdateNodes",
        0,
        v1::UpdateNodesRequest {
            update: Some(v1::NodeUpdate {
                nodes: "n[1-2]".to_owned(),
                reason: Some("r".to_owned()),
                ..Default::default()
            }),
        }
        .encode_to_vec(),
    );
    for job_id in 1..=4 {
        add(
            "Scheduler/CreateStep",
            0,
            v1::CreateStepRequest {
                step: Some(v1::StepDescription {
                    job_id,
                    name: "s".to_owned(),
                    ..Default::default()
                }),
            }
            .encode_to_vec(),
        );
        add(
            "Scheduler/CompleteAllocation",
            0,
            v1::CompleteAllocationRequest {
                job_id,
                wait_status: 256,
            }
            .encode_to_vec(),
        );
        add(
            "Scheduler/NotifyJob",
            0,
            v1::NotifyJobRequest {
                job_id,
                text: "t".to_owned(),
            }
            .encode_to_vec(),
        );
    }
    let settings = |pairs: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| v1::ConfigEntry {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        pairs.iter().map(entry).collect::<Vec<_>>()
    };
    let partition = v1::ChangePartitionRequest {
        name: "third".to_owned(),
        create: true,
        settings: settings(&[("Nodes", "n[1-3]"), ("MaxTime", "1-0"), ("State", "UP")]),
    };
    add("Admin/ChangePartition", 0, partition.encode_to_vec());
    let nodes = v1::CreateNodesRequest {
        settings: settings(&[("NodeName", "c[1-2]"), ("CPUs", "4"), ("State", "CLOUD")]),
    };
    add("Admin/CreateNodes", 0, nodes.encode_to_vec());
    let entry = |spec: &str| v1::JobDescription {
        cron_spec: Some(spec.to_owned()),
        ..job("")
    };
    let crontab = v1::PutCrontabRequest {
        uid: 0,
        text: "*/5 1-3 * * mon true\n@daily x\n".to_owned(),
        jobs: vec![entry("*/5 1-3 * * mon"), entry("@daily")],
    };
    add("Automation/PutCrontab", 0, crontab.encode_to_vec());
    let component = |tasks: u32| v1::JobDescription {
        ntasks: Some(tasks),
        script: None,
        ..job("")
    };
    let heterogeneous = v1::SubmitRequest {
        job: Some(job("het")),
        components: vec![component(1), component(2)],
        ..Default::default()
    };
    add("Scheduler/Submit", 0, heterogeneous.encode_to_vec());
    for (resource, id, event) in [("job", "1", "fini"), ("node", "n[1-2]", "down")] {
        let trigger = v1::Trigger {
            resource: resource.to_owned(),
            resource_id: id.to_owned(),
            event: event.to_owned(),
            offset: -5,
            program: "/bin/true".to_owned(),
            ..Default::default()
        };
        let request = v1::SetTriggerRequest {
            trigger: Some(trigger),
        };
        add("Automation/SetTrigger", 1, request.encode_to_vec());
    }
    let attach = v1::AttachStepRequest {
        job_id: 1,
        step_id: 0,
        address: "127.0.0.1:1".to_owned(),
        secret: "s".to_owned(),
    };
    add("Automation/AttachStep", 0, attach.encode_to_vec());
    let limit = v1::UpdateStepsRequest {
        job_id: 1,
        step_id: Some(0),
        time_limit: 5,
    };
    add("Admin/UpdateSteps", 0, limit.encode_to_vec());
    let top = v1::TopJobsRequest {
        jobs: vec!["1".to_owned(), "2_3".to_owned()],
    };
    add("Admin/TopJobs", 0, top.encode_to_vec());
    let reboot = v1::RebootNodesRequest {
        nodes: "n4".to_owned(),
        asap: true,
        next_state: "RESUME".to_owned(),
        reason: "r".to_owned(),
        ..Default::default()
    };
    add("Admin/RebootNodes", 0, reboot.encode_to_vec());
    let gone = v1::DeleteNodesRequest {
        nodes: "c[1-2]".to_owned(),
    };
    add("Admin/DeleteNodes", 0, gone.encode_to_vec());
    let gone = v1::DeletePartitionRequest {
        name: "third".to_owned(),
    };
    add("Admin/DeletePartition", 0, gone.encode_to_vec());
    let debug = v1::SetDebugRequest {
        level: Some("debug".to_owned()),
        add_flags: vec!["Backfill".to_owned()],
        ..Default::default()
    };
    add("Admin/SetDebug", 0, debug.encode_to_vec());
    let assignments = |pairs: &[(&str, &str)]| {
        let one = |(field, value): &(&str, &str)| v1::Assignment {
            field: (*field).to_owned(),
            value: (*value).to_owned(),
            ..Default::default()
        };
        pairs.iter().map(one).collect::<Vec<_>>()
    };
    let qos = v1::AddQosRequest {
        names: vec!["fast".to_owned()],
        assignments: assignments(&[("Priority", "10"), ("MaxTRESPerUser", "cpu=4,mem=1G")]),
        dry_run: false,
    };
    add("Accounting/AddQos", 0, qos.encode_to_vec());
    let account = v1::AddAccountsRequest {
        names: vec!["club".to_owned()],
        ..Default::default()
    };
    add("Accounting/AddAccounts", 0, account.encode_to_vec());
    let user = v1::AddUsersRequest {
        names: vec!["nobody".to_owned()],
        accounts: vec!["club".to_owned()],
        assignments: assignments(&[("MaxJobs", "3"), ("Fairshare", "parent")]),
        ..Default::default()
    };
    add("Accounting/AddUsers", 0, user.encode_to_vec());
    let selection = |name: &str| {
        Some(v1::EntitySelection {
            names: vec![name.to_owned()],
            ..Default::default()
        })
    };
    for (entity, name) in [(1, "club"), (2, "nobody"), (4, "fast")] {
        let modify = v1::ModifyRequest {
            entity,
            selection: selection(name),
            assignments: assignments(&[("GrpTRES", "cpu=-1"), ("Description", "x")]),
            dry_run: false,
        };
        add("Accounting/Modify", 0, modify.encode_to_vec());
        let delete = v1::DeleteRequest {
            entity,
            selection: selection(name),
            dry_run: true,
        };
        add("Accounting/Delete", 0, delete.encode_to_vec());
    }
    let reservation = v1::ReservationRequest {
        name: "r".to_owned(),
        start_time: Some(1_900_000_000),
        duration: Some(v1::TimeLimit {
            limit: Some(v1::time_limit::Limit::Minutes(60)),
        }),
        users: Some("root,-nobody".to_owned()),
        ..Default::default()
    };
    for (method, request) in [
        (
            "Scheduler/CreateReservation",
            v1::ReservationRequest {
                nodes: Some("n[1-2]".to_owned()),
                flags_add: u64::MAX,
                ..reservation.clone()
            },
        ),
        (
            "Scheduler/CreateReservation",
            v1::ReservationRequest {
                node_counts: vec![1],
                licenses: Some("matlab:2".to_owned()),
                features: Some("x&y".to_owned()),
                ..reservation.clone()
            },
        ),
        (
            "Scheduler/UpdateReservation",
            v1::ReservationRequest {
                nodes: Some("+n3".to_owned()),
                duration_change: -5,
                ..reservation
            },
        ),
    ] {
        add(method, 0, request.encode_to_vec());
    }
    for (index, _) in METHODS.iter().enumerate() {
        // Empty, and a number and a text in the first fields: what most requests have.
        seeds.push(vec![index as u8, 0]);
        seeds.push(vec![index as u8, 0, 0x08, 0x01]);
        seeds.push(vec![index as u8, 1, 0x0A, 0x01, b'1']);
    }
    seeds
}
