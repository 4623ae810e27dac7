//! Roles as in Slurm: administrator, operator, user. The one place that answers "may this caller do that".
//!
//! root and SlurmUser are administrators. Others get their role from accounting (`AdminLevel`), which hands its list over when
//! it has loaded; until then they are users. Source: `sacctmgr` (AdminLevel), `slurm.conf` (SlurmUser).

use std::collections::{BTreeSet, HashMap};

use parking_lot::RwLock;

use super::{Identity, IdentitySource};

/// What a caller may do at all; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Acts on what is theirs.
    User,
    /// Acts on every job and reservation.
    Operator,
    /// Acts on everything.
    Administrator,
}

/// The cluster's roles. Shared; the list from accounting may be replaced at any time.
#[derive(Debug)]
pub struct Roles {
    slurm_user_uid: u32,
    levels: RwLock<HashMap<u32, Role>>,
    coordinators: RwLock<HashMap<u32, BTreeSet<String>>>,
}

impl Roles {
    /// Roles of a cluster whose SlurmUser has this uid; nobody else is more than a user yet.
    #[must_use]
    pub fn new(slurm_user_uid: u32) -> Roles {
        Roles {
            slurm_user_uid,
            levels: RwLock::new(HashMap::new()),
            coordinators: RwLock::new(HashMap::new()),
        }
    }

    /// Replaces what accounting says, by uid.
    pub fn set_admin_levels(&self, levels: HashMap<u32, Role>) {
        *self.levels.write() = levels;
    }

    /// Replaces what accounting says about coordinators: uid → accounts, those below them included.
    pub fn set_coordinators(&self, coordinators: HashMap<u32, BTreeSet<String>>) {
        *self.coordinators.write() = coordinators;
    }

    /// Accounts that the caller coordinates.
    #[must_use]
    pub fn accounts_coordinated(&self, identity: &Identity) -> BTreeSet<String> {
        match identity.source {
            IdentitySource::Agent(_) => BTreeSet::new(),
            IdentitySource::Local { .. } | IdentitySource::Token => {
                self.accounts_coordinated_by_uid(identity.uid)
            }
        }
    }

    /// As [`Self::accounts_coordinated`], of a user in whose name the administrator acts.
    #[must_use]
    pub fn accounts_coordinated_by_uid(&self, uid: u32) -> BTreeSet<String> {
        self.coordinators
            .read()
            .get(&uid)
            .cloned()
            .unwrap_or_default()
    }

    /// Coordinates the account.
    #[must_use]
    pub fn coordinates(&self, identity: &Identity, account: &str) -> bool {
        identity.agent_node().is_none()
            && self
                .coordinators
                .read()
                .get(&identity.uid)
                .is_some_and(|accounts| accounts.contains(account))
    }

    /// The caller's role. An agent speaks for its node and is a mere user in everything else.
    #[must_use]
    pub fn role_of(&self, identity: &Identity) -> Role {
        match identity.source {
            IdentitySource::Agent(_) => Role::User,
            IdentitySource::Local { .. } | IdentitySource::Token => self.role_of_uid(identity.uid),
        }
    }

    fn role_of_uid(&self, uid: u32) -> Role {
        if uid == 0 || uid == self.slurm_user_uid {
            return Role::Administrator;
        }
        self.levels.read().get(&uid).copied().unwrap_or(Role::User)
    }

    /// May change nodes, partitions and the daemon itself.
    #[must_use]
    pub fn is_administrator(&self, identity: &Identity) -> bool {
        self.role_of(identity) >= Role::Administrator
    }

    /// As [`Self::is_privileged`], of a user in whose name the administrator acts.
    #[must_use]
    pub fn is_privileged_uid(&self, uid: u32) -> bool {
        self.role_of_uid(uid) >= Role::Operator
    }

    /// May act on what belongs to others: operator or administrator.
    #[must_use]
    pub fn is_privileged(&self, identity: &Identity) -> bool {
        self.role_of(identity) >= Role::Operator
    }

    /// May change, signal, hold or requeue a job of the user `owner_uid`.
    #[must_use]
    pub fn may_act_on_job(&self, identity: &Identity, owner_uid: u32) -> bool {
        let owns = identity.uid == owner_uid && identity.agent_node().is_none();
        owns || self.is_privileged(identity)
    }

    /// May run something as `uid`, or get a token in that name: oneself, and for anybody root and SlurmUser. AdminLevel in
    /// accounting gives no right to be somebody else, else every operator were root on every node.
    #[must_use]
    pub fn may_act_as(&self, identity: &Identity, uid: u32) -> bool {
        let own = [0, self.slurm_user_uid, uid].contains(&identity.uid);
        own && identity.agent_node().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32, source: IdentitySource) -> Identity {
        Identity {
            uid,
            gid: None,
            user_name: uid.to_string(),
            source,
        }
    }

    #[test]
    fn who_may_act_on_whose_job() {
        let roles = Roles::new(64030);
        roles.set_admin_levels(HashMap::from([
            (50, Role::Operator),
            (60, Role::Administrator),
        ]));
        let token = |uid| caller(uid, IdentitySource::Token);
        // (caller, role, own job of uid 1000, administrator)
        for (uid, role, acts) in [
            (0, Role::Administrator, true),
            (64030, Role::Administrator, true),
            (60, Role::Administrator, true),
            (50, Role::Operator, true),
            (1000, Role::User, true),
            (1001, Role::User, false),
        ] {
            assert_eq!(roles.role_of(&token(uid)), role, "uid {uid}");
            assert_eq!(roles.may_act_on_job(&token(uid), 1000), acts, "uid {uid}");
            assert_eq!(
                roles.is_administrator(&token(uid)),
                role == Role::Administrator,
                "uid {uid}"
            );
            assert_eq!(
                roles.may_act_as(&token(uid), 1000),
                [0, 64030, 1000].contains(&uid),
                "uid {uid}"
            );
        }
        assert!(!roles.is_privileged(&token(1000)));
        assert!(roles.is_privileged(&caller(0, IdentitySource::Local { pid: None })));
    }

    #[test]
    fn an_agent_has_no_rights_over_jobs_even_as_root() {
        let roles = Roles::new(64030);
        let agent = caller(0, IdentitySource::Agent("n1".to_owned()));
        assert_eq!(roles.role_of(&agent), Role::User);
        assert!(!roles.may_act_on_job(&agent, 0));
        assert!(!roles.may_act_on_job(&agent, 1000));
        assert!(!roles.may_act_as(&agent, 0));
    }

    #[test]
    fn a_new_list_replaces_the_old() {
        let roles = Roles::new(0);
        roles.set_admin_levels(HashMap::from([(50, Role::Operator)]));
        roles.set_admin_levels(HashMap::new());
        assert_eq!(
            roles.role_of(&caller(50, IdentitySource::Token)),
            Role::User
        );
    }
}
