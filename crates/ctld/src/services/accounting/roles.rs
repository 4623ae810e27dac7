//! Rights, default accounts, associations and QOS that accounting gives, brought to where they are asked for: "may this caller do
//! that", "which account is charged when none is named", and the engine's policy.
//!
//! Only here are login names of the database turned into uids of this host. A name that this host does not know has no rights
//! here. While the database is away the last list stays in force.
//! Source: `sacctmgr(1)`, AdminLevel.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sluice_accounting::AccountingError;
use sluice_controller::command::policy;
use sluice_model::accounting::{AdminLevel, AssociationRecord, QosRecord, UserRecord};
use tokio::sync::watch;

use super::super::Shared;
use crate::auth::Role;
use crate::core::now;

/// Time between two looks: another controller may change rights in a database that is shared.
const INTERVAL: Duration = Duration::from_secs(60);

/// Time between two looks until the first one succeeds.
const FIRST_INTERVAL: Duration = Duration::from_millis(500);

/// After its start the controller waits this long at most for accounting before it takes a job.
const FIRST_WAIT: Duration = Duration::from_secs(3);

/// Time between two looks until the first one succeeds and submissions wait for it.
const EAGER_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the rights of all users once.
///
/// # Errors
/// When the database cannot be read; the list in force stays.
pub async fn load(shared: &Shared) -> Result<(), AccountingError> {
    let cluster = shared.core.snapshot().config.cluster_name.clone();
    let mut levels = HashMap::new();
    let mut accounts = HashMap::new();
    let mut coordinators = HashMap::new();
    let associations = shared.store.associations(Some(&cluster)).await?;
    let users = shared.store.users().await?;
    let qos = shared.store.qos().await?;
    bring_into_force(shared, associations.clone(), qos, users.clone()).await;
    for user in users {
        let role = match user.admin_level {
            AdminLevel::None => None,
            AdminLevel::Operator => Some(Role::Operator),
            AdminLevel::Administrator => Some(Role::Administrator),
        };
        let account = user
            .default_accounts
            .into_iter()
            .find(|(name, _)| *name == cluster);
        match shared.users.find_name(&user.name).await {
            Ok(Some(record)) => {
                levels.extend(role.map(|role| (record.uid, role)));
                accounts.extend(account.map(|(_, account)| (record.uid, account)));
                if !user.coordinator_of.is_empty() {
                    let all = with_accounts_below(&associations, user.coordinator_of);
                    coordinators.insert(record.uid, all);
                }
            }
            Ok(None) => tracing::debug!(
                user = user.name,
                "has rights in accounting and no account on this host"
            ),
            Err(error) => tracing::warn!("rights of user {} are not in force: {error}", user.name),
        }
    }
    shared.roles.set_admin_levels(levels);
    shared.roles.set_coordinators(coordinators);
    *shared.default_accounts.write() = accounts;
    // A cluster that is registered has an association at least, root's.
    if !associations.is_empty() {
        shared.roles_known.send_replace(true);
    }
    Ok(())
}

/// Waits until the list was read for the first time, so that jobs submitted in the first moments are charged as later ones are.
/// Not long: without its database the controller takes jobs all the same.
pub async fn known(shared: &Shared) {
    let mut known = shared.roles_known.subscribe();
    let late = now().since(shared.started) >= FIRST_WAIT.as_secs() as i64;
    if *known.borrow() || late || !shared.store.is_enabled() {
        return;
    }
    let _ = tokio::time::timeout(FIRST_WAIT, known.wait_for(|known| *known)).await;
}

/// Reads associations, QOS and users and brings them into force, without looking at rights.
///
/// # Errors
/// When the database cannot be read; the policy in force stays.
pub async fn load_policy(shared: &Shared) -> Result<(), AccountingError> {
    let cluster = shared.core.snapshot().config.cluster_name.clone();
    let associations = shared.store.associations(Some(&cluster)).await?;
    let qos = shared.store.qos().await?;
    let users = shared.store.users().await?;
    bring_into_force(shared, associations, qos, users).await;
    Ok(())
}

/// Hands the policy to the engine, which keeps it in its journal: it rules from here on, also while the database is away.
async fn bring_into_force(
    shared: &Shared,
    associations: Vec<AssociationRecord>,
    qos: Vec<QosRecord>,
    users: Vec<UserRecord>,
) {
    // The database does not know this cluster yet: what rules goes on.
    if associations.is_empty() {
        return;
    }
    let done = shared
        .core
        .run(move |transaction| Ok(policy::load(transaction, associations, qos, users)))
        .await;
    match done {
        Ok(true) => tracing::info!("associations and QOS were changed"),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!("associations and QOS of the database are not in force: {error}")
        }
    }
}

fn has_policy(shared: &Shared) -> bool {
    shared.core.snapshot().policy.tree().root().is_some()
}

/// The accounts and all that are below them.
fn with_accounts_below(
    associations: &[AssociationRecord],
    accounts: Vec<String>,
) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut found = accounts;
    while let Some(account) = found.pop() {
        // Seen before: not looked at again, so that a circle ends.
        if !all.insert(account.clone()) {
            continue;
        }
        found.extend(
            associations
                .iter()
                .filter(|row| row.user.is_empty() && row.parent_account == account)
                .map(|row| row.account.clone()),
        );
    }
    all
}

/// Keeps the rights current until `shutdown` becomes true. Ends at once when there is no accounting.
pub async fn keep_current(shared: Arc<Shared>, mut shutdown: watch::Receiver<bool>) {
    if !shared.store.is_enabled() {
        return;
    }
    let mut interval = FIRST_INTERVAL;
    loop {
        match load(&shared).await {
            // Until the database knows this cluster there are no associations.
            Ok(()) if *shared.roles_known.borrow() && has_policy(&shared) => interval = INTERVAL,
            Ok(()) => {}
            Err(error) => tracing::debug!("rights of users not read: {error}"),
        }
        let waited_for = now().since(shared.started) < FIRST_WAIT.as_secs() as i64;
        let pause = if waited_for && !*shared.roles_known.borrow() {
            EAGER_INTERVAL
        } else {
            interval
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = shutdown.changed() => return,
        }
    }
}
