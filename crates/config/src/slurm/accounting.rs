//! Accounting settings from the global keys and from slurmdbd.conf.
//!
//! Sluice keeps records itself: in SQLite unless Postgres is configured. `accounting_storage/slurmdbd` therefore means "keep records", in
//! SQLite, or in what a slurmdbd.conf beside slurm.conf names when its StorageType is postgres or sqlite.

use super::values::Values;
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics};
use crate::keys::split_list;
use sluice_model::tres::TresKind;

const POSTGRES_PORT: u16 = 5432;
const DATABASE: &str = "slurm_acct_db";

pub(crate) fn accounting(
    values: &Values,
    slurmdbd: Option<&Values>,
    paths: &Paths,
    sizes: Sizes,
    diags: &mut Diagnostics,
) -> AccountingSettings {
    let enforce = enforce(values);
    let storage = storage(values, slurmdbd, paths, diags);
    if storage == AccountingStorage::None && (enforce.associations || enforce.qos) {
        let text = values.string("AccountingStorageEnforce");
        let detail = Detail::pair("AccountingStorageEnforce", &text)
            .hint("remove it, or set AccountingStorageType=accounting_storage/slurmdbd");
        diags.error(
            values.origin_of("AccountingStorageEnforce"),
            detail,
            "needs accounting, which AccountingStorageType=accounting_storage/none turns off",
        );
    }
    AccountingSettings {
        storage,
        enforce,
        tres: tres(values),
        store_flags: values
            .list("AccountingStoreFlags")
            .iter()
            .map(|f| f.to_ascii_lowercase())
            .collect(),
        track_wckey: values.boolean("TrackWCKey") || enforce.wckeys,
        max_queued_records: values.number_if_set("MaxDBDMsgs").unwrap_or_else(|| {
            let wanted = u64::from(sizes.max_job_count) * 2 + sizes.nodes as u64 * 4;
            wanted.clamp(10_000, u64::from(u32::MAX)) as u32
        }),
        gather: match values
            .text("JobAcctGatherType")
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("jobacct_gather/linux") => JobAcctGather::Linux,
            Some("jobacct_gather/cgroup") => JobAcctGather::Cgroup,
            _ => JobAcctGather::None,
        },
        gather_interval_secs: gather_interval(values, diags),
        gather_params: values.list("JobAcctGatherParams"),
    }
}

/// What the size of the queue for a database that is away depends on.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub max_job_count: u32,
    pub nodes: usize,
}

fn storage(
    values: &Values,
    slurmdbd: Option<&Values>,
    paths: &Paths,
    diags: &mut Diagnostics,
) -> AccountingStorage {
    let default_file = || format!("{}/accounting.sqlite", paths.state_save_location);
    let file = |loc: Option<&str>| {
        loc.filter(|l| l.starts_with('/'))
            .map_or_else(default_file, str::to_owned)
    };
    let kind = values
        .text("AccountingStorageType")
        .unwrap_or("")
        .to_ascii_lowercase();
    let loc = values.given("AccountingStorageLoc");
    match kind.as_str() {
        "accounting_storage/none" => AccountingStorage::None,
        "accounting_storage/postgres" => AccountingStorage::Postgres(postgres(&Source {
            host: values.given("AccountingStorageHost"),
            port: values.given("AccountingStoragePort"),
            user: values
                .given("AccountingStorageUser")
                .or_else(|| values.text("SlurmUser")),
            password: values.given("AccountingStoragePass"),
            location: loc,
        })),
        "accounting_storage/slurmdbd" => match slurmdbd {
            Some(dbd) => dbd_storage(dbd, file, diags),
            None => AccountingStorage::Sqlite { path: file(loc) },
        },
        _ => AccountingStorage::Sqlite { path: file(loc) },
    }
}

fn dbd_storage(
    dbd: &Values,
    file: impl Fn(Option<&str>) -> String,
    diags: &mut Diagnostics,
) -> AccountingStorage {
    match dbd
        .text("StorageType")
        .unwrap_or("")
        .to_ascii_lowercase()
        .as_str()
    {
        "accounting_storage/postgres" => AccountingStorage::Postgres(postgres(&Source {
            host: dbd.given("StorageHost"),
            port: dbd.given("StoragePort"),
            user: dbd.given("StorageUser").or_else(|| dbd.text("SlurmUser")),
            password: dbd.given("StoragePass"),
            location: dbd.given("StorageLoc"),
        })),
        "accounting_storage/none" => AccountingStorage::None,
        "accounting_storage/mysql" => {
            warn_mysql(dbd, diags);
            AccountingStorage::Sqlite { path: file(None) }
        }
        _ => AccountingStorage::Sqlite {
            path: file(dbd.given("StorageLoc")),
        },
    }
}

/// MySQL is what Slurm uses; here its place is taken by others.
pub(crate) fn warn_mysql(dbd: &Values, diags: &mut Diagnostics) {
    if dbd
        .text("StorageType")
        .is_some_and(|t| t.eq_ignore_ascii_case("accounting_storage/mysql"))
    {
        let detail = Detail::pair("StorageType", "accounting_storage/mysql")
            .hint("set accounting_storage/postgres for a database server");
        diags.warn(
            dbd.origin_of("StorageType"),
            detail,
            "MySQL is not used; records are kept in SQLite under StateSaveLocation",
        );
    }
}

struct Source<'a> {
    host: Option<&'a str>,
    port: Option<&'a str>,
    user: Option<&'a str>,
    password: Option<&'a str>,
    location: Option<&'a str>,
}

fn postgres(source: &Source<'_>) -> PostgresSettings {
    let is_url = |t: &&str| t.starts_with("postgres://") || t.starts_with("postgresql://");
    let url = source
        .location
        .filter(is_url)
        .or_else(|| source.host.filter(is_url))
        .map(str::to_owned);
    PostgresSettings {
        url,
        host: source
            .host
            .filter(|h| !is_url(h))
            .unwrap_or("localhost")
            .to_owned(),
        port: source
            .port
            .and_then(|p| p.parse().ok())
            .unwrap_or(POSTGRES_PORT),
        user: source.user.unwrap_or("slurm").to_owned(),
        password: source.password.map(str::to_owned),
        database: source
            .location
            .filter(|l| !is_url(l))
            .unwrap_or(DATABASE)
            .to_owned(),
    }
}

fn enforce(values: &Values) -> AccountingEnforce {
    let mut enforce = AccountingEnforce::default();
    for item in values.list("AccountingStorageEnforce") {
        match item.to_ascii_lowercase().as_str() {
            "associations" => enforce.associations = true,
            "limits" => enforce.limits = true,
            "qos" => enforce.qos = true,
            "safe" => (enforce.safe, enforce.limits) = (true, true),
            "wckeys" => enforce.wckeys = true,
            "nojobs" => (enforce.no_jobs, enforce.no_steps) = (true, true),
            "nosteps" => enforce.no_steps = true,
            "all" => {
                enforce.limits = true;
                enforce.qos = true;
                enforce.safe = true;
                enforce.wckeys = true;
            }
            _ => {}
        }
    }
    enforce.associations |= enforce.limits || enforce.qos || enforce.safe || enforce.wckeys;
    enforce
}

/// The eight resources that are always tracked, then those asked for; gres/gpu brings gres/gpumem and gres/gpuutil.
fn tres(values: &Values) -> Vec<TresKind> {
    use TresKind::*;
    let mut kinds = vec![Cpu, Mem, Energy, Node, Billing, FsDisk, Vmem, Pages];
    for kind in split_list(values.text("AccountingStorageTRES").unwrap_or(""))
        .filter_map(|t| t.parse::<TresKind>().ok())
    {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds
        .iter()
        .any(|k| matches!(k, Gres(name) if name == "gpu"))
    {
        for name in ["gpumem", "gpuutil"] {
            if !kinds.contains(&Gres(name.to_owned())) {
                kinds.push(Gres(name.to_owned()));
            }
        }
    }
    kinds
}

fn gather_interval(values: &Values, diags: &mut Diagnostics) -> u32 {
    let mut seconds = 30;
    for item in values.list("JobAcctGatherFrequency") {
        let (name, number) = item.split_once('=').unwrap_or(("task", &item));
        let known = ["task", "energy", "network", "filesystem"]
            .iter()
            .any(|n| name.trim().eq_ignore_ascii_case(n));
        match number.trim().parse::<u32>() {
            Ok(n) if known => {
                if name.trim().eq_ignore_ascii_case("task") {
                    seconds = n;
                }
            }
            _ => {
                let detail = Detail::pair("JobAcctGatherFrequency", &item)
                    .hint("legal: SECONDS or task=, energy=, network=, filesystem=SECONDS");
                diags.error(
                    values.origin_of("JobAcctGatherFrequency"),
                    detail,
                    "is not a sampling interval",
                );
            }
        }
    }
    seconds
}
