//! Flags of sacct and sacctmgr.
//!
//! Source: sacct(1), sacctmgr(1).

use super::Argument::{No, Optional as Opt, Required as Req};
use super::Category::{Filter, Other, Output};
use super::{Command, Flag, flag};

const S: &[Command] = &[Command::Sacct];
const M: &[Command] = &[Command::Sacctmgr];
const SM: &[Command] = &[Command::Sacct, Command::Sacctmgr];

/// The table.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("accounts", Some('A'), Req("accounts"), Filter, S, "", "jobs of these accounts"),
    flag("allclusters", Some('L'), No, Filter, S, "", "jobs of all clusters"),
    flag("allocations", Some('X'), No, Filter, S, "", "no steps"),
    flag("allusers", Some('a'), No, Filter, S, "", "jobs of all users"),
    flag("array", None, No, Output, S, "", "one line for each task of a pending array"),
    flag("associations", Some('x'), Req("ids"), Filter, S, "", "jobs of these associations"),
    flag("batch-script", Some('B'), No, Output, S, "", "print the batch scripts"),
    flag("brief", Some('b'), No, Output, S, "", "id, state and exit code only"),
    flag("cluster", None, Req("names"), Filter, S, "", "jobs of these clusters"),
    flag("clusters", Some('M'), Req("names"), Filter, S, "", "jobs of these clusters"),
    flag("completion", Some('c'), No, Output, S, "", "columns of job completion records"),
    flag("constraints", Some('C'), Req("features"), Filter, S, "", "jobs with these constraints"),
    flag("delimiter", None, Req("text"), Output, S, "", "separator of -p and -P"),
    flag("duplicates", Some('D'), No, Filter, S, "", "every run of a requeued job"),
    flag("endtime", Some('E'), Req("time"), Filter, S, "", "end of the period"),
    flag("env-vars", None, No, Output, S, "", "print the environments of batch jobs"),
    flag("expand-patterns", None, No, Output, S, "", "expand filename patterns"),
    flag("federation", None, No, Filter, S, "FEDERATION", "show the whole federation"),
    flag("file", Some('f'), Req("file"), Other, S, "", "job completion file to read"),
    flag("flags", Some('F'), Req("flags"), Filter, S, "", "jobs with these flags"),
    flag("format", Some('o'), Req("fields"), Output, S, "FORMAT", "columns, such as jobid,state%20"),
    flag("gid", Some('g'), Req("groups"), Filter, S, "", "jobs of these groups"),
    flag("group", None, Req("groups"), Filter, S, "", "jobs of these groups"),
    flag("helpformat", Some('e'), No, Output, S, "", "list the columns"),
    flag("jobs", Some('j'), Req("ids"), Filter, S, "", "these jobs or steps"),
    flag("local", None, No, Filter, S, "LOCAL", "only the local cluster"),
    flag("long", Some('l'), No, Output, S, "", "many columns"),
    flag("name", None, Req("names"), Filter, S, "", "jobs of these names"),
    flag("ncpus", Some('I'), Req("min[-max]"), Filter, S, "", "jobs with so many CPUs"),
    flag("nnodes", Some('i'), Req("min[-max]"), Filter, S, "", "jobs with so many nodes"),
    flag("noconvert", None, No, Output, S, "", "do not change units"),
    flag("nodelist", Some('N'), Req("nodes"), Filter, S, "", "jobs that ran on these nodes"),
    flag("partition", Some('r'), Req("names"), Filter, S, "", "jobs of these partitions"),
    flag("qos", Some('q'), Req("names"), Filter, S, "", "jobs of these QOS"),
    flag("reason", Some('R'), Req("reasons"), Filter, S, "", "jobs that waited for these reasons"),
    flag("reservations", None, Req("names"), Filter, S, "", "jobs in these reservations"),
    flag("starttime", Some('S'), Req("time"), Filter, S, "", "begin of the period"),
    flag("state", Some('s'), Req("states"), Filter, S, "", "jobs in these states"),
    flag("timelimit-max", Some('K'), Req("time"), Filter, S, "", "longest time limit"),
    flag("timelimit-min", Some('k'), Req("time"), Filter, S, "", "shortest time limit"),
    flag("truncate", Some('T'), No, Output, S, "", "cut times to the period"),
    flag("uid", None, Req("users"), Filter, S, "", "jobs of these users"),
    flag("units", None, Req("K|M|G|T|P"), Output, S, "", "unit of sizes"),
    flag("use-local-uid", None, No, Output, S, "", "look up user names on this machine"),
    flag("user", Some('u'), Req("users"), Filter, S, "", "jobs of these users"),
    flag("wckeys", Some('W'), Req("keys"), Filter, S, "", "jobs of these workload keys"),
    flag("whole-hetjob", None, Opt("yes|no"), Filter, S, "", "all components of heterogeneous jobs"),
    flag("associations", Some('s'), No, Output, M, "", "show associations with accounts and users"),
    flag("immediate", Some('i'), No, Other, M, "", "do not ask before a change"),
    flag("oneliner", Some('o'), No, Output, M, "", "accepted for old scripts"),
    flag("quiet", Some('Q'), No, Output, M, "", "no messages except errors"),
    flag("readonly", Some('r'), No, Other, M, "", "no changes"),
    flag("json", None, Opt("form"), Output, SM, "", "print JSON"),
    flag("noheader", Some('n'), No, Output, SM, "", "no heading"),
    flag("parsable", Some('p'), No, Output, SM, "", "columns separated by | and ended by it"),
    flag("parsable2", Some('P'), No, Output, SM, "", "columns separated by |"),
    flag("verbose", Some('v'), No, Other, SM, "", "say more"),
    flag("yaml", None, Opt("form"), Output, SM, "", "print YAML"),
];
