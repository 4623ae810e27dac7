//! Clusters, accounts, users, associations and QOS, on both databases. Expected values: golden outputs of sacctmgr.

mod support;

use sluice_accounting::{AccountingError, AccountingStore, Batch, NewUser};
use sluice_model::accounting::{
    AccountRecord, AccountingUpdate, AdminLevel, AssociationRecord, JobRecord, QosRecord,
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
        [("Add Clusters", 100)]
    );
}

async fn the_tree_is_that_of_the_golden_output(backend: Backend) {
    let store = backend.store().await;
    science(&store).await;
    store
        .add_qos(
            &change(102),
            &QosRecord {
                name: "high".to_owned(),
                priority: 1000,
                ..QosRecord::default()
            },
        )
        .await
        .unwrap();
    store
        .add_qos(
            &change(102),
            &QosRecord {
                name: "limited".to_owned(),
                ..QosRecord::default()
            },
        )
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
        .set_coordinator(&change(106), "bio", "alice", true)
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
        .add_qos(
            &change(113),
            &QosRecord {
                name: "normal".to_owned(),
                ..QosRecord::default()
            },
        )
        .await
        .unwrap_err();
    assert!(matches!(qos, AccountingError::Exists { .. }), "{qos}");
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
    store
        .set_default_account(&change(122), "alice", "bio", &[])
        .await
        .unwrap();
    assert_eq!(default().await, [(CLUSTER.to_owned(), "bio".to_owned())]);
    let wrong = store
        .set_default_account(&change(123), "alice", "science", &[])
        .await
        .unwrap_err();
    assert!(matches!(wrong, AccountingError::NotFound { .. }), "{wrong}");
    assert_eq!(
        default().await,
        [(CLUSTER.to_owned(), "bio".to_owned())],
        "a refused change leaves the default"
    );
    let last = store
        .delete_user(&change(124), "alice", &["bio".to_owned()], &[])
        .await
        .unwrap_err();
    assert!(
        matches!(last, AccountingError::InUse { .. }),
        "the default goes last: {last}"
    );
    store
        .delete_user(&change(125), "alice", &["physics".to_owned()], &[])
        .await
        .unwrap();
    store
        .delete_user(&change(126), "alice", &[], &[])
        .await
        .unwrap();
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
    for error in [
        store
            .delete_account(&change(141), "bio", &[])
            .await
            .unwrap_err(),
        store
            .delete_account(&change(141), "science", &[])
            .await
            .unwrap_err(),
        store
            .delete_user(&change(141), "bob", &[], &[])
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(&error, AccountingError::InUse { by, .. } if by.contains("11")),
            "{error}"
        );
    }
    job.end = Some(UnixSeconds(150));
    send(1, &job).await;
    store
        .delete_account(&change(151), "science", &[])
        .await
        .unwrap();
    assert_eq!(tree(&store).await, ["root|||1", "root|root||1"]);
    assert_eq!(store.accounts().await.unwrap().len(), 1);
    let root = store
        .delete_account(&change(152), "root", &[])
        .await
        .unwrap_err();
    assert!(matches!(root, AccountingError::InUse { .. }), "{root}");
    let last = store.transactions(None).await.unwrap().pop().unwrap();
    assert_eq!(
        (
            last.action.as_str(),
            last.actor.as_str(),
            last.condition.as_str()
        ),
        ("Remove Accounts", "root", "science")
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

    let mut qos = QosRecord {
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
    store.add_qos(&change(162), &qos).await.unwrap();
    qos.id = 2;
    assert_eq!(store.qos().await.unwrap()[1], qos);
    qos.usage_factor = 1.0;
    qos.limit_factor = None;
    store.modify_qos(&change(163), &qos).await.unwrap();
    assert_eq!(store.qos().await.unwrap()[1], qos);
    store.delete_qos(&change(164), "limited").await.unwrap();
    assert!(store.delete_qos(&change(164), "normal").await.is_err());
    assert_eq!(store.qos().await.unwrap().len(), 1);
}
