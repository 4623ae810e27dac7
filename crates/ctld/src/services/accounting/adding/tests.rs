//! What would be added, and the texts about it. Expected texts are those of the golden outputs.

use sluice_accounting::StorageSettings;
use sluice_proto::v1;
use tonic::Code;

use super::*;
use crate::auth::IdentitySource;

fn root() -> Identity {
    Identity {
        uid: 0,
        gid: Some(0),
        user_name: "root".to_owned(),
        source: IdentitySource::Local { pid: None },
    }
}

/// A database with the cluster `oracle`.
async fn store(folder: &tempfile::TempDir) -> AccountingStore {
    let settings = StorageSettings::Sqlite {
        path: folder.path().join("accounting.db"),
    };
    let store = AccountingStore::open(settings)
        .await
        .expect("the database opens");
    store
        .ensure_cluster(&change(&root()), "oracle")
        .await
        .expect("a cluster");
    store
}

fn account(name: &str, parent: &str) -> AddAccountsRequest {
    AddAccountsRequest {
        names: vec![name.to_owned()],
        parent: parent.to_owned(),
        description: "new".to_owned(),
        organization: "lab".to_owned(),
        ..Default::default()
    }
}

fn user(name: &str, account: &str) -> AddUsersRequest {
    AddUsersRequest {
        names: vec![name.to_owned()],
        accounts: vec![account.to_owned()],
        ..Default::default()
    }
}

/// A dry run cannot know the ids that rows will get.
fn without_ids(reply: &AddReply) -> AddReply {
    let mut reply = reply.clone();
    for row in &mut reply.associations {
        assert_ne!(row.id, 0, "a stored row has an id");
        row.id = 0;
    }
    reply
}

fn rows(reply: &AddReply) -> Vec<String> {
    let rows = reply.associations.iter();
    rows.map(|row| {
        format!(
            "{}:{}:{}:{}",
            row.cluster,
            row.account,
            row.user,
            u8::from(row.is_default)
        )
    })
    .collect()
}

/// Golden sacctmgr-add-account: a dry run tells the same as what is then done, and adds nothing; once more is refused.
#[tokio::test]
async fn an_account_is_added_once() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    add_accounts(&store, &root(), account("science", ""))
        .await
        .expect("added");
    let request = account("NewAcct", "science");
    let told = add_accounts(
        &store,
        &root(),
        AddAccountsRequest {
            dry_run: true,
            ..request.clone()
        },
    )
    .await
    .expect("told");
    assert_eq!(
        store.accounts().await.expect("accounts").len(),
        2,
        "root and science"
    );
    let done = add_accounts(&store, &root(), request.clone())
        .await
        .expect("added");
    assert_eq!(told, without_ids(&done));
    assert_eq!(
        (done.added.as_slice(), rows(&done)),
        (
            &["newacct".to_owned()][..],
            vec!["oracle:newacct::0".to_owned()]
        )
    );
    assert_eq!(done.associations[0].parent_account, "science");
    let again = add_accounts(&store, &root(), request)
        .await
        .expect_err("refused");
    assert_eq!(again.code(), Code::AlreadyExists);
    assert_eq!(
        again.message(),
        " Already existing account newacct on cluster oracle"
    );
    let orphan = add_accounts(&store, &root(), account("x", "nosuch"))
        .await
        .expect_err("refused");
    assert_eq!(orphan.code(), Code::NotFound);
    assert!(
        orphan
            .message()
            .contains("'nosuch' doesn't exist on cluster oracle"),
        "{}",
        orphan.message()
    );
}

/// Description and organization are the name and the parent's organization when they are not given.
#[tokio::test]
async fn an_account_takes_its_organization_from_above() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    add_accounts(&store, &root(), account("science", ""))
        .await
        .expect("added");
    let bare = |name: &str, parent: &str| AddAccountsRequest {
        description: String::new(),
        organization: String::new(),
        ..account(name, parent)
    };
    add_accounts(&store, &root(), bare("bio", "science"))
        .await
        .expect("added");
    add_accounts(&store, &root(), bare("arts", ""))
        .await
        .expect("added");
    let accounts = store.accounts().await.expect("accounts");
    let told = |name: &str| {
        let account = accounts
            .iter()
            .find(|account| account.name == name)
            .expect("the account");
        (account.description.clone(), account.organization.clone())
    };
    assert_eq!(told("bio"), ("bio".to_owned(), "lab".to_owned()));
    assert_eq!(told("arts"), ("arts".to_owned(), "arts".to_owned()));
}

/// Golden sacctmgr-add-user and -nounix: no look at the host's users; the first account becomes the default.
#[tokio::test]
async fn a_user_is_added_and_gets_a_default_account() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    add_accounts(&store, &root(), account("bio", ""))
        .await
        .expect("added");
    add_accounts(&store, &root(), account("physics", ""))
        .await
        .expect("added");
    let both = AddUsersRequest {
        accounts: vec!["bio".to_owned(), "physics".to_owned()],
        ..user("nounix", "")
    };
    let told = add_users(
        &store,
        &root(),
        AddUsersRequest {
            dry_run: true,
            ..both.clone()
        },
    )
    .await
    .expect("told");
    assert!(
        store
            .users()
            .await
            .expect("users")
            .iter()
            .all(|user| user.name != "nounix")
    );
    let done = add_users(&store, &root(), both.clone())
        .await
        .expect("added");
    assert_eq!(told, without_ids(&done));
    assert_eq!(
        rows(&done),
        ["oracle:bio:nounix:1", "oracle:physics:nounix:0"]
    );
    let again = add_users(&store, &root(), both).await.expect_err("refused");
    assert_eq!(again.code(), Code::AlreadyExists);
    assert!(
        again
            .message()
            .starts_with(" Already existing user nounix in account bio on cluster oracle")
    );
    // A partition makes a row of its own, and the default stays.
    let partition = AddUsersRequest {
        partitions: vec!["gpu".to_owned()],
        ..user("nounix", "bio")
    };
    let more = add_users(&store, &root(), partition).await.expect("added");
    assert_eq!(
        (more.added.len(), more.existing),
        (0, vec!["nounix".to_owned()])
    );
    assert_eq!(more.associations[0].partition, "gpu");
}

/// Golden sacctmgr-add-user-badacct, word for word.
#[tokio::test]
async fn a_user_of_an_unknown_account_is_skipped() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    add_accounts(&store, &root(), account("bio", ""))
        .await
        .expect("added");
    let status = add_users(&store, &root(), user("carol", "nosuch"))
        .await
        .expect_err("refused");
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(
        status.message(),
        "No account nosuch on cluster oracle, skipping.\nNothing added.\n\
         Make sure the accounts requested here have been added to the system/cluster. (sacctmgr add account...)"
    );
    // Beside an account that exists it is skipped.
    let two = AddUsersRequest {
        accounts: vec!["nosuch".to_owned(), "bio".to_owned()],
        ..user("carol", "")
    };
    let done = add_users(&store, &root(), two).await.expect("added");
    assert_eq!(rows(&done), ["oracle:bio:carol:1"]);
    // As the default it was asked for by name.
    let default = AddUsersRequest {
        default_account: "nosuch".to_owned(),
        ..user("dave", "bio")
    };
    assert_eq!(
        add_users(&store, &root(), default)
            .await
            .expect_err("refused")
            .code(),
        Code::NotFound
    );
    assert!(
        store
            .users()
            .await
            .expect("users")
            .iter()
            .all(|user| user.name != "dave")
    );
}

/// An account on one of two clusters must not keep the user off that one.
#[tokio::test]
async fn clusters_are_dealt_with_one_by_one() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    add_accounts(&store, &root(), account("bio", ""))
        .await
        .expect("added");
    let other = AddClusterRequest {
        name: "Other".to_owned(),
        ..Default::default()
    };
    let added = add_cluster(&store, &root(), other.clone())
        .await
        .expect("added");
    assert_eq!(rows(&added), ["other:root::0", "other:root:root:1"]);
    assert_eq!(
        add_cluster(&store, &root(), other)
            .await
            .expect_err("refused")
            .code(),
        Code::AlreadyExists
    );
    let wanted = AddUsersRequest {
        default_account: "bio".to_owned(),
        ..user("carol", "bio")
    };
    let done = add_users(&store, &root(), wanted).await.expect("added");
    assert_eq!(rows(&done), ["oracle:bio:carol:1"]);
    let nowhere = AddUsersRequest {
        clusters: vec!["nosuch".to_owned()],
        ..user("dave", "bio")
    };
    let status = add_users(&store, &root(), nowhere)
        .await
        .expect_err("refused");
    assert!(
        status
            .message()
            .starts_with(" This cluster 'nosuch' doesn't exist."),
        "{}",
        status.message()
    );
}

/// What a list could not show or the scheduler could not read later is refused at once.
#[tokio::test]
async fn bad_requests_are_refused() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    let with = |settings| AddAccountsRequest {
        settings: Some(settings),
        ..account("bio", "")
    };
    for (request, code) in [
        (account("a b", ""), Code::InvalidArgument),
        (
            AddAccountsRequest {
                names: Vec::new(),
                ..account("", "")
            },
            Code::InvalidArgument,
        ),
        (
            with(AssociationSettings {
                default_qos: "nosuch".to_owned(),
                ..Default::default()
            }),
            Code::NotFound,
        ),
        (
            with(AssociationSettings {
                limits: Some(v1::AssociationLimits {
                    grp_tres: "cpu".to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            Code::InvalidArgument,
        ),
    ] {
        let status = add_accounts(&store, &root(), request)
            .await
            .expect_err("refused");
        assert_eq!(status.code(), code, "{}", status.message());
    }
    let homeless = AddUsersRequest {
        names: vec!["carol".to_owned()],
        ..Default::default()
    };
    assert_eq!(
        add_users(&store, &root(), homeless)
            .await
            .expect_err("refused")
            .code(),
        Code::InvalidArgument
    );
    assert_eq!(
        store.accounts().await.expect("accounts").len(),
        1,
        "only root"
    );
}

/// Shares and limits given are those of the new rows; `parent` means no share of its own.
#[tokio::test]
async fn settings_reach_the_rows() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let store = store(&folder).await;
    let settings = AssociationSettings {
        shares_parent: true,
        qos: Some(v1::StringList {
            items: vec!["Normal".to_owned()],
        }),
        limits: Some(v1::AssociationLimits {
            max_jobs: Some(3),
            ..Default::default()
        }),
        ..Default::default()
    };
    add_accounts(
        &store,
        &root(),
        AddAccountsRequest {
            settings: Some(settings),
            ..account("bio", "")
        },
    )
    .await
    .expect("added");
    let stored = store.associations(Some("oracle")).await.expect("rows");
    let bio = stored
        .iter()
        .find(|row| row.account == "bio")
        .expect("the row");
    assert_eq!((bio.shares, bio.limits.max_jobs), (None, Some(3)));
    assert_eq!(bio.qos.as_deref(), Some(&["normal".to_owned()][..]));
}
