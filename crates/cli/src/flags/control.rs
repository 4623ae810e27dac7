//! Flags of scancel and scontrol.
//!
//! Source: scancel(1), scontrol(1).

use super::Argument::{No, Optional as Opt, Required as Req};
use super::Category::{Filter, Other, Output};
use super::{Command, Flag, flag};

const K: &[Command] = &[Command::Scancel];
const C: &[Command] = &[Command::Scontrol];
const KC: &[Command] = &[Command::Scancel, Command::Scontrol];

/// The table.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("account", Some('A'), Req("account"), Filter, K, "ACCOUNT", "jobs of this account"),
    flag("admin-comment", None, Req("text"), Other, K, "", "comment kept with the jobs"),
    flag("batch", Some('b'), No, Other, K, "BATCH", "signal only the batch shell"),
    flag("cron", Some('c'), No, Filter, K, "CRON", "permit cancelling scrontab jobs"),
    flag("ctld", None, No, Other, K, "CTLD", "send through the controller"),
    flag("full", Some('f'), No, Other, K, "FULL", "signal the batch shell, its children and all steps"),
    flag("hurry", Some('H'), No, Other, K, "HURRY", "do not stage out"),
    flag("interactive", Some('i'), No, Other, K, "INTERACTIVE", "ask before each job"),
    flag("me", None, No, Filter, K, "", "own jobs"),
    flag("name", Some('n'), Req("name"), Filter, K, "NAME", "jobs of this name"),
    flag("jobname", None, Req("name"), Filter, K, "", "same as --name"),
    flag("nodelist", Some('w'), Req("nodes"), Filter, K, "", "jobs on these nodes"),
    flag("partition", Some('p'), Req("partition"), Filter, K, "PARTITION", "jobs of this partition"),
    flag("qos", Some('q'), Req("qos"), Filter, K, "QOS", "jobs of this QOS"),
    flag("reservation", Some('R'), Req("reservation"), Filter, K, "", "jobs in this reservation"),
    flag("signal", Some('s'), Req("signal"), Other, K, "", "signal to send instead of ending the job"),
    flag("state", Some('t'), Req("state"), Filter, K, "STATE", "jobs in this state: PENDING, RUNNING or SUSPENDED"),
    flag("user", Some('u'), Req("user"), Filter, K, "USER", "jobs of this user"),
    flag("wckey", None, Req("key"), Filter, K, "WCKEY", "jobs of this workload key"),
    flag("all", Some('a'), No, Filter, C, "ALL", "hidden partitions too"),
    flag("details", Some('d'), No, Output, C, "", "more details (repeat for more)"),
    flag("federation", None, No, Filter, C, "FEDERATION", "show the whole federation"),
    flag("future", Some('F'), No, Filter, C, "", "nodes in state FUTURE too"),
    flag("hide", None, No, Filter, C, "", "leave out hidden partitions"),
    flag("json", None, Opt("form"), Output, C, "", "print JSON"),
    flag("local", None, No, Filter, C, "LOCAL", "only the local cluster"),
    flag("oneliner", Some('o'), No, Output, C, "", "one line a record"),
    flag("uid", Some('u'), Req("user"), Other, C, "", "act as this user (root only)"),
    flag("yaml", None, Opt("form"), Output, C, "", "print YAML"),
    flag("clusters", Some('M'), Req("name"), Filter, KC, "=SLURM_CLUSTERS", "cluster to talk to"),
    flag("quiet", Some('Q'), No, Output, KC, "", "no messages about jobs that have ended, fewer warnings"),
    flag("sibling", None, Opt("cluster"), Other, K, "", "end only this sibling of a federated job"),
    flag("sibling", None, No, Output, C, "SIBLING", "show all siblings of a federated job"),
    flag("verbose", Some('v'), No, Output, KC, "", "say more"),
];
