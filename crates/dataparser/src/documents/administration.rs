//! Accounts, users and clusters: `sacctmgr show account|user|cluster --json`.

use sluice_model::accounting::{
    AccountRecord, AdminLevel, AssociationRecord, ClusterRecord, UserRecord,
};

use super::association::write_short;
use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::TresIds;

/// A listing of accounts.
pub struct Accounts<'a> {
    /// The accounts.
    pub accounts: &'a [AccountRecord],
    /// Associations to list with them; empty unless asked for.
    pub associations: &'a [AssociationRecord],
}

/// A listing of users.
pub struct Users<'a> {
    /// The users.
    pub users: &'a [UserRecord],
    /// Associations to list with them; empty unless asked for.
    pub associations: &'a [AssociationRecord],
    /// Cluster whose default account counts.
    pub cluster: &'a str,
}

/// A listing of clusters.
pub struct Clusters<'a> {
    /// The clusters.
    pub clusters: &'a [ClusterRecord],
    /// Rows of their root accounts.
    pub roots: &'a [AssociationRecord],
    /// Ids of TRES.
    pub tres: &'a TresIds,
}

fn write_associations<'a, S: Sink>(
    sink: &mut S,
    rows: impl Iterator<Item = &'a AssociationRecord>,
) {
    sink.list("associations", rows, |sink, row| write_short(sink, row));
}

fn write_coordinators<S: Sink>(sink: &mut S, names: &[String]) {
    sink.list("coordinators", names, |sink, name| {
        sink.begin_map();
        sink.text("name", name);
        sink.flag("direct", true);
        sink.end_map();
    });
}

impl Payload for Accounts<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("accounts", self.accounts, |sink, account| {
            sink.begin_map();
            let rows = self.associations.iter();
            write_associations(sink, rows.filter(|row| row.account == account.name));
            write_coordinators(sink, &account.coordinators);
            sink.text("description", &account.description);
            sink.text("name", &account.name);
            sink.text("organization", &account.organization);
            sink.texts("flags", account_flags(account));
            sink.end_map();
        });
    }
}

fn account_flags(account: &AccountRecord) -> impl Iterator<Item = &'static str> + '_ {
    let has = |name: &str| {
        account
            .flags
            .split(',')
            .any(|flag| flag.trim().eq_ignore_ascii_case(name))
    };
    [
        (account.deleted, "DELETED"),
        (has("NoUsersAreCoords"), "NoUsersAreCoords"),
        (has("UsersAreCoords"), "UsersAreCoords"),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .map(|(_, word)| word)
}

impl Payload for Users<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("users", self.users, |sink, user| {
            let default = user
                .default_accounts
                .iter()
                .find(|(cluster, _)| cluster == self.cluster)
                .or(user.default_accounts.first());
            let level = match user.admin_level {
                AdminLevel::None => "None",
                AdminLevel::Operator => "Operator",
                AdminLevel::Administrator => "Administrator",
            };
            sink.begin_map();
            sink.texts("administrator_level", [level]);
            let rows = self.associations.iter();
            write_associations(sink, rows.filter(|row| row.user == user.name));
            write_coordinators(sink, &user.coordinator_of);
            sink.map("default", |sink| {
                sink.uint("qos", 0_u64);
                sink.text("account", default.map_or("", |(_, account)| account));
                sink.text("wckey", "");
            });
            sink.texts("flags", user.deleted.then_some("DELETED"));
            sink.text("name", &user.name);
            sink.text("old_name", "");
            sink.empty_list("wckeys");
            sink.end_map();
        });
    }
}

impl Payload for Clusters<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("clusters", self.clusters, |sink, cluster| {
            let root = self
                .roots
                .iter()
                .find(|row| row.cluster == cluster.name && row.user.is_empty());
            sink.begin_map();
            sink.map("controller", |sink| {
                sink.text("host", &cluster.control_host);
                sink.uint("port", cluster.control_port);
            });
            sink.texts("flags", cluster.deleted.then_some("DELETED"));
            sink.text("name", &cluster.name);
            sink.text("nodes", &cluster.node_list);
            sink.map("associations", |sink| {
                sink.key("root");
                match root {
                    Some(row) => write_short(sink, row),
                    None => sink.null(),
                }
            });
            sink.uint("rpc_version", cluster.rpc_version);
            self.tres.write_list(sink, "tres", &cluster.tres);
            sink.end_map();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    fn read(payload: &impl Payload) -> serde_json::Value {
        serde_json::from_str(&to_json(&Meta::default(), payload)).expect("JSON")
    }

    /// Fields of the three kinds, in the order of the data parser.
    #[test]
    fn records() {
        let account = AccountRecord {
            name: "bio".to_string(),
            description: "biology".to_string(),
            organization: "uni".to_string(),
            coordinators: vec!["carol".to_string()],
            ..AccountRecord::default()
        };
        let row = AssociationRecord {
            id: 8,
            ..AssociationRecord::new("oracle", "bio", "bob")
        };
        let document = read(&Accounts {
            accounts: &[account],
            associations: std::slice::from_ref(&row),
        });
        assert_eq!(
            document["accounts"][0],
            serde_json::json!({
                "associations": [{"account": "bio", "cluster": "oracle", "partition": "", "user": "bob", "id": 8}],
                "coordinators": [{"name": "carol", "direct": true}],
                "description": "biology", "name": "bio", "organization": "uni", "flags": []
            })
        );
        let user = UserRecord {
            name: "bob".to_string(),
            admin_level: AdminLevel::Operator,
            default_accounts: vec![
                ("elsewhere".to_string(), "chem".to_string()),
                ("oracle".to_string(), "bio".to_string()),
            ],
            ..UserRecord::default()
        };
        let document = read(&Users {
            users: &[user],
            associations: &[],
            cluster: "oracle",
        });
        let record = &document["users"][0];
        assert_eq!(
            record["administrator_level"],
            serde_json::json!(["Operator"])
        );
        assert_eq!(record["default"]["account"], "bio");
    }
}
