//! What administrators change by hand: partitions, nodes, reboots, sizes of running jobs, places in the queue.
//!
//! Expected states and codes are those of scontrol(1) and of a running slurmctld. Every story is replayed from its events.

mod world;

use std::sync::Arc;

use sluice_config::ClusterConfig;
use sluice_controller::command::hold::{HoldKind, hold_targets};
use sluice_controller::command::reboot::{self, RebootRequest};
use sluice_controller::command::update::update_targets;
use sluice_controller::command::{config, node, node_create, partition, step_limit, top};
use sluice_model::error_code::ErrorCode;
use sluice_model::ids::{JobId, StepId};
use sluice_model::job::{JobDescription, JobUpdate};
use sluice_model::launch::AgentOrder;
use sluice_model::node::{NodeStateRequest, NodeUpdate};
use sluice_model::time::{TimeLimit, UnixSeconds};
use world::{ALICE, CONF, ROOT, World, cpus};

fn pairs(text: &str) -> Vec<(String, String)> {
    text.split_whitespace()
        .map(|word| {
            let (key, value) = word.split_once('=').expect("key=value");
            (key.to_owned(), value.to_owned())
        })
        .collect()
}

fn change_partition(w: &mut World, name: &str, create: bool, text: &str) -> Result<(), ErrorCode> {
    let settings = pairs(text);
    w.run(|t| partition::change(t, name, create, &settings, &ROOT))
        .map_err(|rejection| rejection.code)
}

fn node_state(w: &World, name: &str) -> String {
    let (_, node) = w.cluster.node_named(name).expect("node");
    node.shown_state().complete()
}

fn node_reason(w: &World, name: &str) -> Option<String> {
    w.cluster.node_named(name).expect("node").1.reason.clone()
}

/// A partition is made, changed and deleted; nodes are added and taken away; one partition is the default.
#[test]
fn partitions() {
    let mut w = World::new();
    change_partition(&mut w, "new", true, "Nodes=n[1-2] MaxTime=10").expect("made");
    let made = w.cluster.partition("new").expect("there").config.clone();
    assert_eq!(
        (made.nodes.join(","), made.min_nodes),
        ("n1,n2".to_owned(), 1)
    );
    change_partition(
        &mut w,
        "new",
        false,
        "Nodes+=n4 Nodes-=n1 Default=YES State=DOWN",
    )
    .expect("changed");
    let changed = w.cluster.partition("new").expect("there").config.clone();
    assert_eq!(changed.nodes.join(","), "n2,n4");
    assert_eq!(
        changed.max_time,
        TimeLimit::Minutes(10),
        "what is not named stays"
    );
    assert!(!w.cluster.partition("main").expect("there").config.default);
    assert_eq!(
        w.cluster.default_partition().expect("one").config.name,
        "new"
    );
    for (name, create, text, code) in [
        ("new", true, "Nodes=n1", ErrorCode::InvalidPartitionName),
        ("nosuch", false, "State=UP", ErrorCode::InvalidPartitionName),
        ("new", false, "Nodes=n9", ErrorCode::InvalidNodeName),
        (
            "new",
            false,
            "Alternate=nosuch",
            ErrorCode::InvalidPartitionName,
        ),
        ("new", false, "NoSuchKey=1", ErrorCode::Unspecified),
    ] {
        assert_eq!(
            change_partition(&mut w, name, create, text),
            Err(code),
            "{text}"
        );
    }
    let settings = pairs("State=UP");
    let refused = w.run(|t| partition::change(t, "new", false, &settings, &ALICE));
    assert_eq!(refused.map_err(|r| r.code), Err(ErrorCode::InvalidUserId));
    change_partition(&mut w, "new", false, "State=UP").expect("up");
    let id = w.submit(JobDescription {
        partitions: vec!["new".to_owned()],
        ..cpus(1)
    });
    w.pass();
    assert_eq!(w.nodes(id), "n2");
    let used = w.run(|t| partition::delete(t, "new", &ROOT));
    assert_eq!(used.map_err(|r| r.code), Err(ErrorCode::PartitionInUse));
    w.finish(id, Default::default());
    w.run(|t| partition::delete(t, "new", &ROOT))
        .expect("deleted");
    assert!(w.cluster.partition("new").is_none());
    w.check();
}

/// Nodes made by hand join partitions of all nodes, stay over a new configuration, and go when they are idle.
#[test]
fn nodes_made_by_hand() {
    let conf = CONF.replace(
        "PartitionName=main Nodes=n[1-4]",
        "PartitionName=main Nodes=ALL",
    );
    let mut w = World::with_conf(&conf);
    let line = pairs("NodeName=d[1-2] CPUs=8 RealMemory=8000 State=CLOUD");
    w.run(|t| node_create::create(t, &line, &ROOT))
        .expect("made");
    let members = |w: &World| {
        w.cluster
            .partition("main")
            .expect("there")
            .config
            .nodes
            .join(",")
    };
    assert_eq!(members(&w), "n1,n2,n3,n4,d1,d2");
    assert_eq!(node_state(&w, "d1"), "UNKNOWN+CLOUD+DYNAMIC_NORM");
    let again = w.run(|t| node_create::create(t, &line, &ROOT));
    assert_eq!(again.map_err(|r| r.code), Err(ErrorCode::InvalidNodeName));
    let up = pairs("NodeName=d3 CPUs=8 State=UP");
    let refused = w.run(|t| node_create::create(t, &up, &ROOT));
    assert_eq!(
        refused.map_err(|r| r.code),
        Err(ErrorCode::InvalidNodeState)
    );

    w.register("d1");
    let id = w.submit(cpus(8));
    w.pass();
    assert_eq!(w.nodes(id), "d1");
    let busy = w.run(|t| node_create::delete(t, "d1", &ROOT));
    assert_eq!(busy.map_err(|r| r.code), Err(ErrorCode::NodesBusy));
    w.run(|t| node_create::delete(t, "n1,d2", &ROOT))
        .expect("idle ones go");
    assert_eq!(members(&w), "n2,n3,n4,d1");
    assert_eq!(w.nodes(id), "d1", "positions move, names stay");
    w.finish(id, Default::default());
    w.check();

    let config = Arc::new(
        ClusterConfig::parse_slurm_conf(&conf)
            .expect("valid")
            .config,
    );
    w.run(|t| {
        config::reload(t, config);
        Ok(())
    })
    .expect("reloaded");
    assert_eq!(
        members(&w),
        "n1,n2,n3,n4,d1",
        "a configured node comes back, a made one stays"
    );
    w.check();
}

/// A restart keeps what was set by hand, `reconfigure` takes it back; KeepPartState and KeepPartInfo keep it.
#[test]
fn reconfiguration() {
    let load = |text: &str| Arc::new(ClusterConfig::parse_slurm_conf(text).expect("valid").config);
    for (flags, state, exists) in [
        ("", "Up", false),
        ("ReconfigFlags=KeepPartState\n", "Down", false),
        ("ReconfigFlags=KeepPartInfo\n", "Down", true),
    ] {
        let conf = format!("{flags}{CONF}");
        let mut w = World::with_conf(&conf);
        change_partition(&mut w, "short", false, "State=DOWN").expect("down");
        change_partition(&mut w, "new", true, "Nodes=n1").expect("made");
        let update = NodeUpdate {
            nodes: "n1".to_owned(),
            weight: Some(9),
            gres: Some("gpu:fake:0".to_owned()),
            ..NodeUpdate::default()
        };
        w.run(|t| node::update(t, &update, &ROOT)).expect("weight");
        let start = load(&conf);
        w.run(|t| {
            config::load(t, start);
            Ok(())
        })
        .expect("restart");
        let weight = |w: &World| w.cluster.node_named("n1").expect("n1").1.effective_weight();
        let gres = |w: &World| w.cluster.node_named("n1").expect("n1").1.config.gres_text();
        assert_eq!((weight(&w), gres(&w).as_str()), (9, "gpu:fake:0"));
        assert!(w.cluster.partition("new").is_some());
        let again = load(&conf);
        w.run(|t| {
            config::reload(t, again);
            Ok(())
        })
        .expect("reconfigure");
        let short = w.cluster.partition("short").expect("short").config.state;
        assert_eq!(format!("{short:?}"), state, "{flags}");
        assert_eq!(w.cluster.partition("new").is_some(), exists, "{flags}");
        assert_eq!((weight(&w), gres(&w).as_str()), (1, "gpu:fake:4"));
        w.check();
    }
}

/// A reboot waits for the node's job, drains it when asked, and ends as `nextstate` says.
#[test]
fn reboots() {
    let mut w = World::with_conf(&format!("RebootProgram=/bin/true\n{CONF}"));
    let ask = |w: &mut World,
               nodes: &str,
               asap: bool,
               next: Option<sluice_controller::cluster::AfterReboot>| {
        let request = RebootRequest {
            nodes: nodes.to_owned(),
            asap,
            next_state: next,
            ..RebootRequest::default()
        };
        w.run(|t| reboot::request(t, &request, &ROOT))
            .map_err(|r| r.code)
    };
    let id = w.submit(cpus(4));
    w.pass();
    assert_eq!(w.nodes(id), "n1");
    ask(&mut w, "n1", true, None).expect("asked");
    assert_eq!(node_state(&w, "n1"), "ALLOCATED+DRAIN+REBOOT_REQUESTED");
    assert_eq!(node_reason(&w, "n1").as_deref(), Some("Reboot ASAP"));
    let cancel = NodeUpdate {
        nodes: "n1".to_owned(),
        state: Some(NodeStateRequest::CancelReboot),
        ..NodeUpdate::default()
    };
    w.run(|t| node::update(t, &cancel, &ROOT))
        .expect("taken back");
    assert_eq!(
        (node_state(&w, "n1").as_str(), node_reason(&w, "n1")),
        ("ALLOCATED", None)
    );
    let twice = w.run(|t| node::update(t, &cancel, &ROOT));
    assert_eq!(twice.map_err(|r| r.code), Err(ErrorCode::InvalidNodeState));

    ask(&mut w, "n1", true, None).expect("asked");
    w.finish(id, Default::default());
    w.orders.clear();
    w.tick();
    assert!(
        w.orders
            .iter()
            .any(|(node, order)| node == "n1" && matches!(order, AgentOrder::Reboot { .. }))
    );
    assert_eq!(node_state(&w, "n1"), "DOWN+DRAIN+REBOOT_ISSUED");
    assert_eq!(
        node_reason(&w, "n1").as_deref(),
        Some("Reboot ASAP : reboot issued")
    );
    w.now = UnixSeconds(w.now.0 + 400);
    w.tick();
    assert_eq!(node_state(&w, "n1"), "DOWN+DRAIN");
    assert_eq!(
        node_reason(&w, "n1").as_deref(),
        Some("Reboot ASAP : reboot issued : reboot timed out")
    );
    assert_eq!(
        ask(&mut w, "nosuch", false, None),
        Err(ErrorCode::InvalidNodeName)
    );
    w.check();

    let mut w = World::new();
    let request = RebootRequest {
        nodes: "n1".to_owned(),
        ..RebootRequest::default()
    };
    let none = w.run(|t| reboot::request(t, &request, &ROOT));
    assert_eq!(
        none.map_err(|r| r.code),
        Err(ErrorCode::Disabled),
        "no RebootProgram"
    );
}

/// A running job gives nodes back and keeps its first; it never grows.
#[test]
fn running_jobs_shrink() {
    let mut w = World::new();
    let id = w.submit(JobDescription {
        min_nodes: Some(3),
        max_nodes: Some(3),
        ..cpus(3)
    });
    w.pass();
    assert_eq!(w.nodes(id), "n[1-3]");
    let update = |w: &mut World, change: JobUpdate| {
        let target = [id.to_string()];
        let outcomes = w
            .run(|t| Ok(update_targets(t, &target, &change, &ALICE)))
            .expect("ran");
        outcomes[0].rejection.as_ref().map(|r| r.code)
    };
    let nodes = |list: &str| JobUpdate {
        keep_nodes: Some(list.to_owned()),
        ..JobUpdate::default()
    };
    let count = |count: u32| JobUpdate {
        min_nodes: Some(count),
        ..JobUpdate::default()
    };
    assert_eq!(update(&mut w, count(4)), Some(ErrorCode::NotSupported));
    assert_eq!(
        update(&mut w, nodes("n4")),
        Some(ErrorCode::InvalidNodeName)
    );
    assert_eq!(
        update(&mut w, nodes("n2")),
        Some(ErrorCode::InvalidNodeName),
        "the script runs on n1"
    );
    assert_eq!(update(&mut w, nodes("n[1,3]")), None);
    assert_eq!(w.nodes(id), "n[1,3]");
    assert_eq!(node_state(&w, "n2"), "IDLE");
    assert_eq!(update(&mut w, count(1)), None);
    assert_eq!(w.nodes(id), "n1");
    w.check();
    w.finish(id, Default::default());
    assert_eq!(w.state(id), "CD");
    w.check();
}

/// `top` exchanges places within a user's queue; others gain and lose nothing.
#[test]
fn top_moves_jobs_forward() {
    let mut w = World::with_conf(&format!("{CONF}SchedulerParameters=enable_user_top\n"));
    let full = w.submit(JobDescription {
        min_nodes: Some(4),
        max_nodes: Some(4),
        ..cpus(16)
    });
    w.pass();
    assert_eq!(w.state(full), "R");
    let ids: Vec<JobId> = (0..3).map(|_| w.submit(cpus(1))).collect();
    let order = |w: &World| {
        let mut ids = ids.clone();
        ids.sort_by_key(|id| {
            (
                std::cmp::Reverse(w.cluster.job(*id).expect("job").standing()),
                *id,
            )
        });
        ids
    };
    let first = |w: &mut World, id: JobId, caller| {
        let target = [id.to_string()];
        w.run(|t| Ok(top::top(t, &target, caller).map_err(|f| f.rejection.code)))
            .expect("ran")
    };
    assert_eq!(first(&mut w, ids[2], &ALICE), Ok(()));
    assert_eq!(order(&w), [ids[2], ids[0], ids[1]]);
    assert_eq!(first(&mut w, ids[1], &ALICE), Ok(()));
    assert_eq!(order(&w), [ids[1], ids[2], ids[0]]);
    assert_eq!(
        first(&mut w, ids[1], &world::BOB),
        Err(ErrorCode::AccessDenied)
    );
    assert_eq!(first(&mut w, full, &ROOT), Err(ErrorCode::JobNotPending));
    let target = [ids[0].to_string()];
    w.run(|t| Ok(hold_targets(t, &target, HoldKind::Hold, &ROOT)))
        .expect("held");
    assert_eq!(first(&mut w, ids[0], &ROOT), Err(ErrorCode::JobHeld));
    w.check();
}

/// A step over its limit is ended; limits are changed for one step or for all.
#[test]
fn step_limits() {
    let mut w = World::new();
    let id = w.submit(cpus(1));
    w.pass();
    let set = |w: &mut World, step, caller| {
        w.run(|t| step_limit::set(t, id, step, TimeLimit::Minutes(1), caller))
            .map_err(|r| r.code)
    };
    assert_eq!(
        set(&mut w, Some(StepId::Num(0)), &ALICE),
        Err(ErrorCode::InvalidJobId)
    );
    assert_eq!(set(&mut w, None, &world::BOB), Err(ErrorCode::AccessDenied));
    assert_eq!(set(&mut w, None, &ALICE), Ok(()));
    w.now = UnixSeconds(w.now.0 + 60);
    w.orders.clear();
    w.tick();
    assert!(
        w.orders
            .iter()
            .any(|(_, order)| matches!(order, AgentOrder::TerminateStep { .. }))
    );
    w.check();
}

/// IDLE is for nodes without jobs; active features are a part of the available ones; of resources a node keeps what it has.
#[test]
fn node_updates_that_do_not_fit() {
    let mut w = World::new();
    let change = |w: &mut World, update: NodeUpdate| {
        let update = NodeUpdate {
            nodes: "n1".to_owned(),
            ..update
        };
        w.run(|t| node::update(t, &update, &ROOT))
            .map_err(|rejection| rejection.code)
    };
    let state = |state| NodeUpdate {
        state: Some(state),
        reason: Some("test".to_owned()),
        ..NodeUpdate::default()
    };
    let id = w.submit(JobDescription {
        required_nodes: Some("n1".to_owned()),
        ..cpus(1)
    });
    w.pass();
    assert_eq!(w.nodes(id), "n1");
    change(&mut w, state(NodeStateRequest::Drain)).expect("drains");
    assert_eq!(
        change(&mut w, state(NodeStateRequest::Idle)),
        Err(ErrorCode::InvalidNodeState)
    );
    w.finish(id, sluice_model::exit_status::WaitStatus::SUCCESS);
    change(&mut w, state(NodeStateRequest::Idle)).expect("nobody is there");
    assert_eq!(node_state(&w, "n1"), "IDLE");

    let features = |available: &[&str], active: Option<&[&str]>| {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        NodeUpdate {
            available_features: Some(names(available)),
            active_features: active.map(names),
            ..NodeUpdate::default()
        }
    };
    change(&mut w, features(&["a", "b"], Some(&["a"]))).expect("a part");
    assert_eq!(
        change(&mut w, features(&["b"], None)),
        Err(ErrorCode::InvalidFeature)
    );
    let gres = |text: &str| NodeUpdate {
        gres: Some(text.to_owned()),
        ..NodeUpdate::default()
    };
    for (text, answer) in [
        ("gpu:fake:9", Err(ErrorCode::InvalidGres)),
        ("gpu:other:1", Err(ErrorCode::InvalidGres)),
        ("", Ok(())),
        ("gpu:fake:4", Ok(())),
    ] {
        assert_eq!(change(&mut w, gres(text)), answer, "{text}");
    }
    w.check();
}
