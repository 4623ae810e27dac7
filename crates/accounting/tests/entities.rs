//! Clusters, accounts, users, associations and QOS, on both databases. Expected values: golden outputs of sacctmgr.

mod support;

use sluice_accounting::{
    AccountingError, AccountingStore, Assignment, Batch, NewUser, Operator, Selection,
};
use sluice_model::accounting::{
    AccountRecord, AccountingUpdate, AdminLevel, AssociationRecord, JobRecord, QosRecord,
    ResourceRecord,
};
use sluice_model::ids::JobId;
use sluice_model::time::UnixSeconds;
use support::{Backend, CLUSTER, change};

on_both! {
    /// `sacctmgr show` on a cluster that was just registered.
    a_registered_cluster_has_root_and_normal;
    /// The tree of the golden outputs, built by the same commands.
    the_tree_is_that_of_the_golden_output;
    /// Adding twice and under what does not exist.
    wrong_additions_are_refused;
    /// Each cluster's default account.
    default_accounts_stay_single;
    /// What runs must not lose its account.
    removal_is_refused_while_jobs_are_open;
    /// All limits and factors are stored.
    settings_come_back;
    /// `sacctmgr modify`.
    rows_are_changed_by_selection;
    /// Coordinators, workload keys, resources.
    smaller_entities;
    /// `sacctmgr modify job`, runaway jobs.
    job_records_are_changed;
}

fn account(name: &str) -> AccountRecord {
    AccountRecord {
        name: name.to_owned(),
        description: name.to_owned(),
        organization: "lab".to_owned(),
        ..AccountRecord::default()
    }
}

fn template() -> AssociationRecord {
    AssociationRecord::new("", "", "")
}

fn new_user(name: &str, accounts: &[&str]) -> NewUser {
    NewUser {
        name: name.to_owned(),
        admin_level: None,
        accounts: accounts.iter().map(|a| (*a).to_owned()).collect(),
        clusters: Vec::new(),
        partitions: Vec::new(),
        default_account: None,
        template: template(),
    }
}

async fn tree(store: &AccountingStore) -> Vec<String> {
    let rows = store.associations(Some(CLUSTER)).await.unwrap();
    rows.iter()
        .map(|row| {
            format!(
                "{}|{}|{}|{}",
                row.account,
                row.user,
                row.partition,
                row.shares.unwrap_or(0)
            )
        })
        .collect()
}

async fn science(store: &AccountingStore) {
    store.ensure_cluster(&change(100), CLUSTER).await.unwrap();
    for (name, parent, shares) in [
        ("science", "root", 60),
        ("physics", "science", 30),
        ("bio", "science", 10),
    ] {
        let template = AssociationRecord {
            shares: Some(shares),
            ..template()
        };
        store
            .add_account(&change(101), &account(name), parent, &[], &template)
            .await
            .unwrap();
    }
}

async fn a_registered_cluster_has_root_and_normal(backend: Backend) {
    let store = backend.store().await;
    store.ensure_cluster(&change(100), CLUSTER).await.unwrap();
    store.ensure_cluster(&change(200), CLUSTER).await.unwrap();
    assert_eq!(tree(&store).await, ["root|||1", "root|root||1"]);
    let accounts = store.accounts().await.unwrap();
    assert_eq!(
        accounts
            .iter()
            .map(|a| (
                a.name.as_str(),
                a.description.as_str(),
                a.organization.as_str()
            ))
            .collect::<Vec<_>>(),
        [("root", "default root account", "root")]
    );
    let users = store.users().await.unwrap();
    assert_eq!(users.len(), 1);
    assert_eq!(
        (users[0].name.as_str(), users[0].admin_level),
        ("root", AdminLevel::Administrator)
    );
    assert_eq!(
        users[0].default_accounts,
        [(CLUSTER.to_owned(), "root".to_owned())]
    );
    let qos = store.qos().await.unwrap();
    assert_eq!(qos.len(), 1);
    assert_eq!(
        (qos[0].id, qos[0].name.as_str(), qos[0].description.as_str()),
        (1, "normal", "Normal QOS default")
    );
    let transactions = store.transactions(None).await.unwrap();
    assert_eq!(
        transactions
            .iter()
            .map(|t| (t.action.as_str(), t.time.0))
            .collect::<Vec<_>>(),
        [("Add Clusters", 100), ("Add Associations", 100)]
    );
}

async fn the_tree_is_that_of_the_golden_output(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    let high = [Assignment::set("priority", "1000")];
    store
        .add_qos(&change(102), &["high".to_owned()], &high, true)
        .await
        .unwrap();
    store
        .add_qos(&change(102), &["limited".to_owned()], &[], true)
        .await
        .unwrap();
    let alice = store
        .add_user(
            &change(103),
            &new_user("alice", &["physics", "bio", "nosuch"]),
        )
        .await
        .unwrap();
    assert!(alice.user_is_new);
    assert_eq!(alice.associations.len(), 2);
    assert_eq!(
        alice.missing_accounts,
        [(CLUSTER.to_owned(), "nosuch".to_owned())]
    );
    assert!(
        alice.associations[0].is_default && !alice.associations[1].is_default,
        "the first account is the default"
    );
    let mut bob = new_user("bob", &["bio"]);
    bob.template.shares = Some(20);
    bob.template.limits.max_jobs = Some(1_000_000);
    bob.template.qos = Some(vec!["limited".to_owned(), "normal".to_owned()]);
    store.add_user(&change(104), &bob).await.unwrap();
    assert_eq!(
        tree(&store).await,
        [
            "root|||1",
            "root|root||1",
            "science|||60",
            "bio|||10",
            "bio|alice||1",
            "bio|bob||20",
            "physics|||30",
            "physics|alice||1"
        ]
    );
    // The managed-cluster guide: sacctmgr add User Accounts=<account> Partition=<partition> <user>
    let mut on_partition = new_user("carol", &["bio"]);
    on_partition.partitions = vec!["gpu".to_owned()];
    store.add_user(&change(105), &on_partition).await.unwrap();
    assert!(tree(&store).await.contains(&"bio|carol|gpu|1".to_owned()));

    let qos = store.qos().await.unwrap();
    assert_eq!(
        qos.iter()
            .map(|q| (q.id, q.name.as_str()))
            .collect::<Vec<_>>(),
        [(1, "normal"), (2, "high"), (3, "limited")]
    );
    store
        .add_coordinators(
            &change(106),
            &["bio".to_owned()],
            &["alice".to_owned()],
            true,
        )
        .await
        .unwrap();
    let users = store.users().await.unwrap();
    assert_eq!(
        users
            .iter()
            .find(|u| u.name == "alice")
            .unwrap()
            .coordinator_of,
        ["bio"]
    );
    assert_eq!(
        store
            .accounts()
            .await
            .unwrap()
            .iter()
            .find(|a| a.name == "bio")
            .unwrap()
            .coordinators,
        ["alice"]
    );
}

async fn wrong_additions_are_refused(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    let again = store
        .add_account(&change(110), &account("bio"), "science", &[], &template())
        .await
        .unwrap_err();
    assert_eq!(
        again.to_string(),
        "account bio on cluster oracle exists already"
    );
    let orphan = store
        .add_account(&change(110), &account("x"), "nosuch", &[], &template())
        .await
        .unwrap_err();
    assert!(
        matches!(&orphan, AccountingError::NotFound { what } if what.contains("nosuch")),
        "{orphan}"
    );
    assert!(
        !store
            .accounts()
            .await
            .unwrap()
            .iter()
            .any(|a| a.name == "x"),
        "nothing of a refused change stays"
    );
    let elsewhere = store
        .add_account(
            &change(110),
            &account("y"),
            "root",
            &["mars".to_owned()],
            &template(),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(&elsewhere, AccountingError::NotFound { what } if what == "cluster mars"),
        "{elsewhere}"
    );

    // Golden: "No account nosuch on cluster oracle, skipping. Nothing added."
    let nothing = store
        .add_user(&change(111), &new_user("carol", &["nosuch"]))
        .await
        .unwrap();
    assert!(nothing.associations.is_empty() && nothing.missing_accounts.len() == 1);
    assert!(
        !store
            .users()
            .await
            .unwrap()
            .iter()
            .any(|u| u.name == "carol")
    );
    store
        .add_user(&change(112), &new_user("carol", &["bio"]))
        .await
        .unwrap();
    let twice = store
        .add_user(&change(112), &new_user("carol", &["bio"]))
        .await
        .unwrap_err();
    assert!(matches!(twice, AccountingError::Exists { .. }), "{twice}");
    let qos = store
        .add_qos(&change(113), &["normal".to_owned()], &[], true)
        .await
        .unwrap();
    assert!(qos.is_empty(), "{qos:?}");
}

async fn default_accounts_stay_single(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    store
        .add_user(&change(120), &new_user("alice", &["physics"]))
        .await
        .unwrap();
    store
        .add_user(&change(121), &new_user("alice", &["bio"]))
        .await
        .unwrap();
    let default = async || {
        store
            .users()
            .await
            .unwrap()
            .into_iter()
            .find(|u| u.name == "alice")
            .unwrap()
            .default_accounts
    };
    assert_eq!(
        default().await,
        [(CLUSTER.to_owned(), "physics".to_owned())]
    );
    let alice = Selection::names(&["alice"]);
    let in_account = |account: &str| Selection {
        accounts: vec![account.to_owned()],
        ..alice.clone()
    };
    let to_bio = [Assignment::set("default_account", "bio")];
    let told = store
        .modify_users(&change(122), &alice, &to_bio, false)
        .await
        .unwrap();
    assert_eq!(told.names, ["alice"]);
    assert_eq!(default().await[0].1, "physics", "only told, not done");
    store
        .modify_users(&change(122), &alice, &to_bio, true)
        .await
        .unwrap();
    assert_eq!(default().await, [(CLUSTER.to_owned(), "bio".to_owned())]);
    let to_science = [Assignment::set("default_account", "science")];
    let wrong = store
        .modify_users(&change(123), &alice, &to_science, true)
        .await
        .unwrap_err();
    assert_eq!(
        wrong.to_string(),
        format!(
            " Can't modify because these users aren't associated with new default account 'science'...\n  U = alice C = {CLUSTER}"
        )
    );
    assert_eq!(
        default().await,
        [(CLUSTER.to_owned(), "bio".to_owned())],
        "a refused change leaves the default"
    );
    let last = store
        .delete_users(&change(124), &in_account("bio"), true)
        .await
        .unwrap_err();
    assert!(
        last.to_string().contains("default account"),
        "the default goes last: {last}"
    );
    let gone = store
        .delete_users(&change(125), &in_account("physics"), true)
        .await
        .unwrap();
    assert_eq!((gone.associations.len(), gone.orphans.len()), (1, 0));
    let gone = store
        .delete_users(&change(126), &alice, true)
        .await
        .unwrap();
    assert_eq!(gone.names, ["alice"]);
    assert!(
        store
            .delete_users(&change(126), &alice, true)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        !store
            .users()
            .await
            .unwrap()
            .iter()
            .any(|u| u.name == "alice")
    );
    let back = store
        .add_user(&change(127), &new_user("alice", &["physics"]))
        .await
        .unwrap();
    assert!(back.user_is_new);
    assert_eq!(
        default().await,
        [(CLUSTER.to_owned(), "physics".to_owned())]
    );
}

async fn removal_is_refused_while_jobs_are_open(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    store
        .add_user(&change(130), &new_user("bob", &["bio"]))
        .await
        .unwrap();
    let mut job = JobRecord::new(JobId(11), 0, UnixSeconds(140));
    job.user = "bob".to_owned();
    job.account = "bio".to_owned();
    let send = async |from: u64, job: &JobRecord| {
        let updates = [(from + 1, AccountingUpdate::Job(job.clone()))];
        store
            .write_batch(
                CLUSTER,
                Batch {
                    journal_id: "j",
                    from,
                    through: from + 1,
                    updates: &updates,
                },
            )
            .await
            .unwrap();
    };
    send(0, &job).await;
    let (bio, science_all) = (Selection::names(&["bio"]), Selection::names(&["science"]));
    for told in [
        store
            .delete_accounts(&change(141), &bio, true)
            .await
            .unwrap(),
        store
            .delete_accounts(&change(141), &science_all, true)
            .await
            .unwrap(),
        store
            .delete_users(&change(141), &Selection::names(&["bob"]), true)
            .await
            .unwrap(),
        store
            .delete_clusters(&change(141), &Selection::names(&[CLUSTER]), true)
            .await
            .unwrap(),
    ] {
        let jobs: Vec<u32> = told.open_jobs.iter().map(|job| job.job_id).collect();
        assert_eq!(jobs, [11], "{told:?}");
        assert!(told.names.is_empty() && told.associations.is_empty());
    }
    assert_eq!(tree(&store).await.len(), 6, "nothing has gone");
    job.end = Some(UnixSeconds(150));
    send(1, &job).await;
    store
        .delete_accounts(&change(151), &science_all, true)
        .await
        .unwrap();
    assert_eq!(tree(&store).await, ["root|||1", "root|root||1"]);
    assert_eq!(store.accounts().await.unwrap().len(), 1);
    let root = store
        .delete_accounts(&change(152), &Selection::names(&["root"]), true)
        .await
        .unwrap_err();
    assert!(
        root.to_string()
            .starts_with(" You are not allowed to remove the root account."),
        "{root}"
    );
    let kept = store.all_associations().await.unwrap();
    assert!(
        kept.iter()
            .any(|row| row.account == "bio" && row.user == "bob" && row.deleted),
        "a charged row is kept"
    );
    assert!(
        !kept.iter().any(|row| row.account == "physics"),
        "a young row that nobody used goes for good"
    );
    let last = store.transactions(None).await.unwrap().pop().unwrap();
    assert_eq!(
        (
            last.action.as_str(),
            last.actor.as_str(),
            last.condition.as_str()
        ),
        ("Remove Accounts", "root", "(name='science')")
    );
}

async fn settings_come_back(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    let mut row = store
        .associations(None)
        .await
        .unwrap()
        .into_iter()
        .find(|row| row.account == "bio")
        .unwrap();
    row.shares = None;
    row.priority = Some(5);
    row.qos = Some(vec!["normal".to_owned()]);
    row.qos_delta = vec!["+high".to_owned(), "-normal".to_owned()];
    row.default_qos = "normal".to_owned();
    row.comment = "c".to_owned();
    let limits = &mut row.limits;
    limits.grp_jobs = Some(1);
    limits.grp_jobs_accrue = Some(2);
    limits.grp_submit_jobs = Some(3);
    limits.grp_tres = "cpu=256".to_owned();
    limits.grp_tres_mins = "cpu=1000".to_owned();
    limits.grp_tres_run_mins = "cpu=2000".to_owned();
    limits.grp_wall = Some(4);
    limits.max_jobs = Some(5);
    limits.max_jobs_accrue = Some(6);
    limits.max_submit_jobs = Some(7);
    limits.max_tres_per_job = "node=1".to_owned();
    limits.max_tres_per_node = "cpu=2".to_owned();
    limits.max_tres_mins_per_job = "cpu=3".to_owned();
    limits.max_tres_run_mins = "cpu=4".to_owned();
    limits.max_wall_per_job = Some(8);
    limits.min_prio_threshold = Some(9);
    store.modify_association(&change(160), &row).await.unwrap();
    let stored = store
        .associations(None)
        .await
        .unwrap()
        .into_iter()
        .find(|r| r.account == "bio")
        .unwrap();
    assert_eq!(stored, row);
    let missing = AssociationRecord {
        user: "nobody".to_owned(),
        ..row
    };
    assert!(matches!(
        store.modify_association(&change(161), &missing).await,
        Err(AccountingError::NotFound { .. })
    ));

    let settings: Vec<Assignment> = [
        ("description", "d"),
        ("flags", "denyonlimit"),
        ("priority", "1"),
        ("grace_time_secs", "2"),
        ("preempt", "normal"),
        ("preempt_mode", "REQUEUE"),
        ("preempt_exempt_time_secs", "3"),
        ("usage_factor", "0.25"),
        ("usage_threshold", "0.5"),
        ("limit_factor", "2"),
        ("max_jobs_per_user", "2"),
        ("max_submit_jobs_per_user", "4"),
        ("max_tres_per_user", "cpu=16"),
    ]
    .iter()
    .map(|(field, value)| Assignment::set(field, value))
    .collect();
    let mut qos = QosRecord {
        id: 2,
        name: "limited".to_owned(),
        description: "d".to_owned(),
        flags: "DenyOnLimit".to_owned(),
        priority: 1,
        grace_time_secs: 2,
        preempt: vec!["normal".to_owned()],
        preempt_mode: "requeue".to_owned(),
        preempt_exempt_time_secs: Some(3),
        usage_factor: 0.25,
        usage_threshold: Some(0.5),
        limit_factor: Some(2.0),
        max_jobs_per_user: Some(2),
        max_submit_jobs_per_user: Some(4),
        max_tres_per_user: "cpu=16".to_owned(),
        ..QosRecord::default()
    };
    let limited = Selection::names(&["limited"]);
    store
        .add_qos(&change(162), &["limited".to_owned()], &settings, true)
        .await
        .unwrap();
    assert_eq!(store.qos().await.unwrap()[1], qos);
    qos.usage_factor = 1.0;
    qos.limit_factor = None;
    let back = [
        Assignment::set("usage_factor", "-1"),
        Assignment::set("limit_factor", "-1"),
    ];
    store
        .modify_qos(&change(163), &limited, &back, true)
        .await
        .unwrap();
    assert_eq!(store.qos().await.unwrap()[1], qos);
    let circle = [Assignment::set("preempt", "limited")];
    let refused = store
        .modify_qos(&change(163), &Selection::names(&["normal"]), &circle, true)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        " Error with request: QOS Preemption loop detected"
    );
    store
        .delete_qos(&change(164), &limited, true)
        .await
        .unwrap();
    assert!(
        store
            .delete_qos(&change(164), &Selection::names(&["normal"]), true)
            .await
            .is_err()
    );
    assert_eq!(store.qos().await.unwrap().len(), 1);
    assert_eq!(store.all_qos().await.unwrap().len(), 2);
}

/// What the real sacctmgr shows after the same commands.
async fn rows_are_changed_by_selection(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    store
        .add_qos(&change(170), &["high".to_owned()], &[], true)
        .await
        .unwrap();
    for account in ["bio", "science"] {
        store
            .add_user(&change(171), &new_user("bob", &[account]))
            .await
            .unwrap();
    }
    store
        .add_user(&change(171), &new_user("alice", &["bio"]))
        .await
        .unwrap();
    let shown = async || {
        let rows = store.associations(Some(CLUSTER)).await.unwrap();
        let rows = rows
            .into_iter()
            .filter(|row| !row.user.is_empty() && row.user != "root");
        rows.map(|row| {
            format!(
                "{}/{} {:?} {} {}",
                row.account,
                row.user,
                row.limits.max_jobs,
                row.limits.max_tres_per_job,
                row.qos_delta.join(",")
            )
        })
        .collect::<Vec<_>>()
    };
    let bob = Selection::names(&["bob"]);
    let set = [
        Assignment::set("max_jobs", "3"),
        Assignment::set("max_tres_per_job", "cpu=5,mem=20480"),
    ];
    let done = store
        .modify_users(&change(172), &bob, &set, true)
        .await
        .unwrap();
    assert_eq!(done.associations.len(), 2);
    let in_bio = Selection {
        accounts: vec!["bio".to_owned()],
        ..Selection::default()
    };
    let set = [
        Assignment::set("max_tres_per_job", "cpu=-1"),
        Assignment {
            operator: Operator::Add,
            ..Assignment::set("qos", "high")
        },
    ];
    store
        .modify_users(&change(173), &in_bio, &set, true)
        .await
        .unwrap();
    assert_eq!(
        shown().await,
        [
            "science/bob Some(3) cpu=5,mem=20480 ",
            "bio/alice None  +high",
            "bio/bob Some(3) mem=20480 +high"
        ]
    );
    let nobody = Selection::names(&["nosuch"]);
    assert!(
        store
            .modify_users(&change(174), &nobody, &set, true)
            .await
            .unwrap()
            .is_empty()
    );
    let wrong = [Assignment::set("default_qos", "high")];
    let refused = store
        .modify_users(
            &change(175),
            &Selection {
                accounts: vec!["science".to_owned()],
                ..bob.clone()
            },
            &wrong,
            true,
        )
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("  DefQOS = high       C = "),
        "not in its list"
    );
    // An account moves with all below it, never below itself.
    let to_bio = [Assignment::set("parent_account", "bio")];
    let science_all = Selection::names(&["science"]);
    assert!(
        store
            .modify_accounts(&change(176), &science_all, &to_bio, true)
            .await
            .unwrap()
            .is_empty()
    );
    let to_root = [
        Assignment::set("parent_account", "root"),
        Assignment::set("description", "d"),
    ];
    let done = store
        .modify_accounts(&change(177), &Selection::names(&["bio"]), &to_root, true)
        .await
        .unwrap();
    assert_eq!(
        (
            done.names.as_slice(),
            done.associations[0].parent_account.as_str()
        ),
        (&["bio".to_owned()][..], "science")
    );
    let bio = store
        .associations(None)
        .await
        .unwrap()
        .into_iter()
        .find(|row| row.account == "bio" && row.user.is_empty());
    assert_eq!(bio.unwrap().parent_account, "root");
    // Rights, and a new name that goes with the rows.
    let set = [
        Assignment::set("admin_level", "operator"),
        Assignment::set("new_name", "rob"),
    ];
    store
        .modify_users(&change(178), &bob, &set, true)
        .await
        .unwrap();
    let rob = store
        .users()
        .await
        .unwrap()
        .into_iter()
        .find(|user| user.name == "rob")
        .unwrap();
    assert_eq!(rob.admin_level, AdminLevel::Operator);
    assert!(
        shown()
            .await
            .iter()
            .any(|row| row.starts_with("science/rob"))
    );
    let actions: Vec<String> = store
        .transactions(None)
        .await
        .unwrap()
        .into_iter()
        .map(|t| t.action)
        .collect();
    assert_eq!(
        actions[actions.len() - 2..],
        ["Modify Users", "Modify Users"]
    );
}

/// Coordinators, workload keys and resources.
async fn smaller_entities(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    store
        .add_user(&change(180), &new_user("alice", &["bio"]))
        .await
        .unwrap();
    let (bio, alice) = (["bio".to_owned()], ["alice".to_owned()]);
    let missing = store
        .add_coordinators(&change(181), &["nosuch".to_owned()], &alice, true)
        .await
        .unwrap_err();
    assert_eq!(
        missing.to_string(),
        " You specified a non-existent account 'nosuch'."
    );
    store
        .add_coordinators(&change(181), &bio, &alice, true)
        .await
        .unwrap();
    let gone = store
        .remove_coordinators(&change(182), &[], &alice, true)
        .await
        .unwrap();
    assert_eq!(gone.coordinators, [("alice".to_owned(), "bio".to_owned())]);
    assert!(
        store
            .remove_coordinators(&change(182), &bio, &alice, true)
            .await
            .unwrap()
            .is_empty()
    );

    let keys = ["k1".to_owned(), "k2".to_owned()];
    assert_eq!(
        store
            .add_wckeys(&change(183), "alice", &keys, &[], Some("k2"), true)
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(
        store
            .add_wckeys(&change(183), "alice", &keys, &[], None, true)
            .await
            .unwrap()
            .is_empty()
    );
    let shown: Vec<(String, bool)> = store
        .wckeys(false)
        .await
        .unwrap()
        .into_iter()
        .map(|key| (key.name, key.is_default))
        .collect();
    assert_eq!(shown, [("k1".to_owned(), false), ("k2".to_owned(), true)]);

    let matlab = ResourceRecord {
        name: "matlab".to_owned(),
        server: "flex".to_owned(),
        kind: "License".to_owned(),
        count: 50,
        clusters: vec![(CLUSTER.to_owned(), 60)],
        ..ResourceRecord::default()
    };
    let done = store
        .add_resource(&change(184), &matlab, true)
        .await
        .unwrap();
    assert_eq!(
        done.names,
        [
            "matlab@flex".to_owned(),
            format!("Cluster - {CLUSTER}\t60%")
        ]
    );
    assert!(
        store
            .add_resource(&change(184), &matlab, true)
            .await
            .unwrap()
            .is_empty()
    );
    let too_much = [Assignment::set("allowed", "101")];
    assert!(
        store
            .modify_resources(
                &change(185),
                &Selection::names(&["matlab"]),
                &too_much,
                true
            )
            .await
            .is_err()
    );
    assert_eq!(
        store.resources(false).await.unwrap()[0].clusters,
        [(CLUSTER.to_owned(), 60)]
    );
    store
        .delete_resources(&change(186), &Selection::names(&["matlab"]), true)
        .await
        .unwrap();
    assert!(store.resources(false).await.unwrap().is_empty());
}

/// sacctmgr(1): a job's texts, and the end of a job that nobody knows any more.
async fn job_records_are_changed(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    let mut job = JobRecord::new(JobId(7), 0, UnixSeconds(190));
    job.uid = 1002;
    job.start = Some(UnixSeconds(195));
    job.state = 1;
    let updates = [(1, AccountingUpdate::Job(job))];
    let batch = Batch {
        journal_id: "j",
        from: 0,
        through: 1,
        updates: &updates,
    };
    store.write_batch(CLUSTER, batch).await.unwrap();
    assert_eq!(store.job_owner(CLUSTER, 7).await.unwrap(), Some(1002));
    let set = [
        Assignment::set("comment", "x"),
        Assignment::set("derived_exit_status", "768"),
    ];
    let done = store
        .modify_jobs(&change(196), &Selection::names(&["7", "8"]), &set, true)
        .await
        .unwrap();
    assert_eq!(done.names, ["7"]);
    let lost = store.unended_jobs(CLUSTER).await.unwrap();
    assert_eq!(
        (
            lost.len(),
            lost[0].comment.as_str(),
            lost[0].derived_exit_status
        ),
        (1, "x", 768)
    );
    store
        .end_lost_jobs(&change(197), CLUSTER, &lost, false)
        .await
        .unwrap();
    assert!(store.unended_jobs(CLUSTER).await.unwrap().is_empty());
}
