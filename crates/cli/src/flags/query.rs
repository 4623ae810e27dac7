//! Flags of squeue and sinfo.
//!
//! Source: squeue(1), sinfo(1).

use super::Argument::{No, Optional as Opt, Required as Req};
use super::Category::{Filter, Other, Output};
use super::{Command, Flag, flag};

const Q: &[Command] = &[Command::Squeue];
const I: &[Command] = &[Command::Sinfo];
const QI: &[Command] = &[Command::Squeue, Command::Sinfo];

/// The table.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("account", Some('A'), Req("accounts"), Filter, Q, "ACCOUNT", "jobs of these accounts"),
    flag("accounts", None, Req("accounts"), Filter, Q, "", "same as --account"),
    flag("all", Some('a'), No, Filter, QI, "ALL", "hidden partitions too"),
    flag("array", Some('r'), No, Output, Q, "ARRAY", "one line for each task of an array"),
    flag("array-unique", None, No, Output, Q, "ARRAY_UNIQUE", "one line for each task with its own id"),
    flag("clusters", Some('M'), Req("names"), Filter, QI, "=SLURM_CLUSTERS", "clusters to show"),
    flag("dead", Some('d'), No, Filter, I, "", "only nodes that do not answer"),
    flag("exact", Some('e'), No, Output, I, "", "group only nodes with the same configuration"),
    flag("expand-patterns", None, No, Output, Q, "", "expand filename patterns"),
    flag("federation", None, No, Filter, QI, "FEDERATION", "show the whole federation"),
    flag("format", Some('o'), Req("format"), Output, QI, "FORMAT", "columns by letters, such as \"%.18i %.9P\""),
    flag("Format", Some('O'), Req("fields"), Output, Q, "FORMAT2", "columns by names, such as jobid:10,partition"),
    flag("Format", Some('O'), Req("fields"), Output, I, "", "columns by names, such as nodehost:10,partition"),
    flag("future", Some('F'), No, Filter, I, "", "nodes in state FUTURE too"),
    flag("hide", None, No, Filter, QI, "", "leave out hidden partitions"),
    flag("iterate", Some('i'), Req("seconds"), Output, QI, "", "show again and again"),
    flag("jobs", Some('j'), Opt("ids"), Filter, Q, "", "these jobs"),
    flag("json", None, Opt("form"), Output, QI, "", "print JSON"),
    flag("licenses", Some('L'), Req("names"), Filter, Q, "LICENSES", "jobs with these licences"),
    flag("list-reasons", Some('R'), No, Output, I, "", "why nodes are down, drained or failing"),
    flag("local", None, No, Filter, QI, "LOCAL", "only the local cluster"),
    flag("long", Some('l'), No, Output, QI, "", "more columns"),
    flag("me", None, No, Filter, Q, "", "own jobs"),
    flag("name", Some('n'), Req("names"), Filter, Q, "NAMES", "jobs or steps of these names"),
    flag("Node", Some('N'), No, Output, I, "", "one line a node"),
    flag("noconvert", None, No, Output, QI, "", "do not change units"),
    flag("nodelist", Some('w'), Req("nodes"), Filter, Q, "", "jobs on these nodes"),
    flag("nodes", Some('n'), Req("nodes"), Filter, I, "", "these nodes"),
    flag("nodes", None, Req("nodes"), Filter, Q, "", "same as --nodelist"),
    flag("noheader", Some('h'), No, Output, QI, "", "no heading"),
    flag("notme", None, No, Filter, Q, "", "jobs of others"),
    flag("only-job-state", None, No, Output, Q, "", "ask only for states"),
    flag("partition", Some('p'), Req("names"), Filter, QI, "PARTITION", "these partitions"),
    flag("partitions", None, Req("names"), Filter, Q, "", "same as --partition"),
    flag("priority", Some('P'), No, Output, Q, "PRIORITY", "one line for each partition of a pending job"),
    flag("qos", Some('q'), Req("names"), Filter, Q, "QOS", "jobs of these QOS"),
    flag("reservation", Some('R'), Req("names"), Filter, Q, "", "jobs in these reservations"),
    flag("reservation", Some('T'), No, Output, I, "", "show reservations"),
    flag("responding", Some('r'), No, Filter, I, "", "only nodes that answer"),
    flag("running-over", None, Req("time"), Filter, Q, "", "jobs that have run longer than this"),
    flag("running-under", None, Req("time"), Filter, Q, "", "jobs that have run shorter than this"),
    flag("sibling", None, No, Output, Q, "SIBLING", "one line for each sibling of a federated job"),
    flag("sort", Some('S'), Req("letters"), Output, QI, "SORT", "order of the lines, such as \"P,-t\""),
    flag("start", None, No, Output, Q, "", "expected start of pending jobs"),
    flag("states", Some('t'), Req("states"), Filter, I, "", "nodes in these states (all = any)"),
    flag("states", Some('t'), Req("states"), Filter, Q, "STATES", "in these states (all = any)"),
    flag("steps", Some('s'), Opt("steps"), Output, Q, "", "show steps"),
    flag("summarize", Some('s'), No, Output, I, "", "one line a partition, without states"),
    flag("user", Some('u'), Req("users"), Filter, Q, "USERS", "jobs of these users"),
    flag("users", None, Req("users"), Filter, Q, "", "same as --user"),
    flag("verbose", Some('v'), No, Other, QI, "", "say more"),
    flag("yaml", None, Opt("form"), Output, QI, "", "print YAML"),
];
