//! `--json` and `--yaml` of sacct and sacctmgr: accounting records as documents. See [`super::structured`].

use std::collections::BTreeMap;

use sluice_dataparser::documents::{
    AccountingJobs, AccountingNames, Accounts, Associations, Clusters, Instances, Qos,
    TrackedResources, Users, Wckeys,
};
use sluice_dataparser::values::TresIds;
use sluice_model::accounting::{
    AccountRecord, AssociationRecord, ClusterRecord, JobRecord, QosRecord, StepRecord, TresRecord,
    UserRecord, WckeyRecord,
};
use sluice_proto::v1;

use super::caller::{now, user_name};
use super::sacctmgr::{PATIENCE, Session};
use super::sacctmgr_show::{self, records};
use super::structured::print;
use crate::client::{Client, ClientError};
use crate::output;
use crate::submit::options::Options;

/// Jobs with their steps.
async fn jobs(
    client: &Client,
    options: &Options,
    jobs: &[(JobRecord, Vec<StepRecord>)],
) -> Result<(), ClientError> {
    let payload = AccountingJobs {
        jobs,
        names: AccountingNames {
            tres: &TresIds::default(),
            user: &user_name,
            now: now(),
        },
    };
    print(client, options, &payload).await
}

/// As [`jobs`], with the exit status of sacct.
pub(super) async fn job_exit(
    client: &Client,
    options: &Options,
    records: &[(JobRecord, Vec<StepRecord>)],
) -> i32 {
    match jobs(client, options, records).await {
        Ok(()) => 0,
        Err(error) => {
            output::error_line(format!("sacct: error: {error}"));
            1
        }
    }
}

/// Associations. Rows of all accounts are asked for as well: paths and inherited QOS come from them.
pub(super) async fn associations(
    client: &Client,
    options: &Options,
    rows: &[AssociationRecord],
) -> Result<i32, ClientError> {
    let request = v1::ListAssociationsRequest::default();
    let accounts = sacctmgr_show::associations(client, request).await?;
    let qos: Vec<QosRecord> = records(
        client
            .accounting()
            .list_qos(v1::ListQosRequest::default())
            .await?
            .into_inner()
            .qos,
    )?;
    let qos_ids: BTreeMap<String, u32> = qos.into_iter().map(|qos| (qos.name, qos.id)).collect();
    let payload = Associations {
        rows,
        accounts: &accounts,
        qos_ids: &qos_ids,
        tres: &TresIds::default(),
    };
    print(client, options, &payload).await?;
    Ok(0)
}

/// Qualities of service.
pub(super) async fn qos(
    client: &Client,
    options: &Options,
    qos: &[QosRecord],
) -> Result<i32, ClientError> {
    let payload = Qos {
        qos,
        tres: &TresIds::default(),
    };
    print(client, options, &payload).await?;
    Ok(0)
}

/// Accounts, with associations when they were asked for.
pub(super) async fn accounts(
    client: &Client,
    options: &Options,
    accounts: &[AccountRecord],
    associations: &[AssociationRecord],
) -> Result<i32, ClientError> {
    let payload = Accounts {
        accounts,
        associations,
    };
    print(client, options, &payload).await?;
    Ok(0)
}

/// Users, with associations when they were asked for.
pub(super) async fn users(
    client: &Client,
    options: &Options,
    users: &[UserRecord],
    associations: &[AssociationRecord],
) -> Result<i32, ClientError> {
    let payload = Users {
        users,
        associations,
        cluster: &client.settings.cluster,
    };
    print(client, options, &payload).await?;
    Ok(0)
}

/// Clusters with the rows of their root accounts.
pub(super) async fn clusters(
    client: &Client,
    options: &Options,
    clusters: &[ClusterRecord],
    roots: &[AssociationRecord],
) -> Result<i32, ClientError> {
    let payload = Clusters {
        clusters,
        roots,
        tres: &TresIds::default(),
    };
    print(client, options, &payload).await?;
    Ok(0)
}

/// Trackable resources.
pub(super) async fn tres(
    client: &Client,
    options: &Options,
    found: Vec<v1::TresRecord>,
) -> Result<i32, ClientError> {
    let found: Vec<TresRecord> = records(found)?;
    print(client, options, &TrackedResources(&found)).await?;
    Ok(0)
}

/// Workload keys.
pub(super) async fn wckeys(
    client: &Client,
    options: &Options,
    found: Vec<v1::WckeyRecord>,
) -> Result<i32, ClientError> {
    let found: Vec<WckeyRecord> = records(found)?;
    print(client, options, &Wckeys(&found)).await?;
    Ok(0)
}

/// Cloud instances.
pub(super) async fn instances(session: &Session) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    print(&client, &session.options, &Instances).await?;
    Ok(0)
}
