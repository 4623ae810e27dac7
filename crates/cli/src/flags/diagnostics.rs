//! Flags of sprio, sshare, sreport, sstat, sdiag, sattach, sbcast, strigger and scrontab.
//!
//! Source: the manual pages of these commands.

use super::Argument::{No, Optional as Opt, Required as Req};
use super::Category::{Filter, Launch, Other, Output};
use super::{Command, Flag, flag};

const PRIO: &[Command] = &[Command::Sprio];
const SHARE: &[Command] = &[Command::Sshare];
const REPORT: &[Command] = &[Command::Sreport];
const STAT: &[Command] = &[Command::Sstat];
const DIAG: &[Command] = &[Command::Sdiag];
const ATTACH: &[Command] = &[Command::Sattach];
const CAST: &[Command] = &[Command::Sbcast];
const TRIGGER: &[Command] = &[Command::Strigger];
const CRON: &[Command] = &[Command::Scrontab];
const TABLES: &[Command] = &[Command::Sshare, Command::Sreport, Command::Sstat];

/// The table.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    // sprio
    flag("clusters", Some('M'), Req("names"), Filter, PRIO, "=SLURM_CLUSTERS", "clusters to show"),
    flag("federation", None, No, Filter, PRIO, "FEDERATION", "show the whole federation"),
    flag("format", Some('o'), Req("format"), Output, PRIO, "FORMAT", "columns by letters, such as \"%.15i %.10Y\""),
    flag("jobs", Some('j'), Req("ids"), Filter, PRIO, "", "these jobs"),
    flag("json", None, Opt("form"), Output, PRIO, "", "print JSON"),
    flag("local", None, No, Filter, PRIO, "LOCAL", "only the local cluster"),
    flag("long", Some('l'), No, Output, PRIO, "", "more columns"),
    flag("noheader", Some('h'), No, Output, PRIO, "", "no heading"),
    flag("norm", Some('n'), No, Output, PRIO, "", "factors between 0 and 1 instead of weighted ones"),
    flag("partition", Some('p'), Req("names"), Filter, PRIO, "", "jobs in these partitions"),
    flag("sibling", None, No, Output, PRIO, "SIBLING", "one line for each sibling of a federated job"),
    flag("sort", Some('S'), Req("letters"), Output, PRIO, "", "order of the lines, such as \"-Y,i\""),
    flag("user", Some('u'), Req("users"), Filter, PRIO, "", "jobs of these users"),
    flag("users", None, Req("users"), Filter, PRIO, "", "same as --user"),
    flag("verbose", Some('v'), No, Other, PRIO, "", "say more"),
    flag("weights", Some('w'), No, Output, PRIO, "", "the configured weights instead of jobs"),
    flag("yaml", None, Opt("form"), Output, PRIO, "", "print YAML"),
    // sshare
    flag("accounts", Some('A'), Req("accounts"), Filter, SHARE, "", "these accounts"),
    flag("all", Some('a'), No, Filter, SHARE, "", "the users of all accounts"),
    flag("clusters", Some('M'), Req("names"), Filter, SHARE, "=SLURM_CLUSTERS", "clusters to show"),
    flag("format", Some('o'), Req("fields"), Output, SHARE, "", "columns, such as account,user,rawshares%12"),
    flag("helpformat", Some('e'), No, Output, SHARE, "", "list the columns"),
    flag("json", None, Opt("form"), Output, SHARE, "", "print JSON"),
    flag("long", Some('l'), No, Output, SHARE, "", "more columns"),
    flag("partition", Some('m'), No, Output, SHARE, "", "a column with the partition of the association"),
    flag("user", Some('u'), Req("users"), Filter, SHARE, "", "these users"),
    flag("users", Some('U'), No, Filter, SHARE, "", "rows of users only"),
    flag("yaml", None, Opt("form"), Output, SHARE, "", "print YAML"),
    // sreport
    flag("all_clusters", Some('a'), No, Filter, REPORT, "", "all clusters"),
    flag("cluster", Some('M'), Req("names"), Filter, REPORT, "CLUSTER", "these clusters"),
    flag("federation", None, No, Filter, REPORT, "FEDERATION", "show the whole federation"),
    flag("local", None, No, Filter, REPORT, "LOCAL", "only the local cluster"),
    flag("quiet", Some('Q'), No, Output, REPORT, "", "no messages except errors"),
    flag("time", Some('t'), Req("form"), Output, REPORT, "", "Seconds, Minutes, Hours, Percent, SecPer, MinPer or HourPer"),
    flag("tres", Some('T'), Req("names"), Output, REPORT, "TRES", "resources to report, such as cpu,mem,gres/gpu"),
    // sstat
    flag("allsteps", Some('a'), No, Filter, STAT, "", "every running step of the jobs"),
    flag("format", Some('o'), Req("fields"), Output, STAT, "", "columns, such as jobid,maxrss%12"),
    flag("helpformat", Some('e'), No, Output, STAT, "", "list the columns"),
    flag("jobs", Some('j'), Req("ids"), Filter, STAT, "", "these jobs or steps"),
    flag("noconvert", None, No, Output, STAT, "", "do not change units"),
    flag("pidformat", Some('i'), No, Output, STAT, "", "the nodes of the steps and their processes"),
    // tables of all three
    flag("noheader", Some('n'), No, Output, TABLES, "", "no heading"),
    flag("parsable", Some('p'), No, Output, TABLES, "", "columns separated by | and ended by it"),
    flag("parsable2", Some('P'), No, Output, TABLES, "", "columns separated by |"),
    flag("verbose", Some('v'), No, Other, TABLES, "", "say more"),
    // sdiag
    flag("all", Some('a'), No, Output, DIAG, "", "everything, which is the default"),
    flag("cluster", Some('M'), Req("names"), Filter, DIAG, "=SLURM_CLUSTERS", "clusters to show"),
    flag("json", None, Opt("form"), Output, DIAG, "", "print JSON"),
    flag("reset", Some('r'), No, Other, DIAG, "", "set the counters to zero"),
    flag("sort-by-id", Some('i'), No, Output, DIAG, "", "calls in the order of their numbers"),
    flag("sort-by-time", Some('t'), No, Output, DIAG, "", "calls that took most time in all first"),
    flag("sort-by-time2", Some('T'), No, Output, DIAG, "", "calls that take longest on average first"),
    flag("no-trunc", None, No, Output, DIAG, "", "do not cut lists of nodes"),
    flag("yaml", None, Opt("form"), Output, DIAG, "", "print YAML"),
    // sattach
    flag("error-filter", None, Req("task"), Output, ATTACH, "", "standard error of this task only"),
    flag("input-filter", None, Req("task"), Output, ATTACH, "", "standard input goes to this task only"),
    flag("label", Some('l'), No, Output, ATTACH, "", "the rank before each line"),
    flag("layout", None, No, Output, ATTACH, "", "show which task runs where, and exit"),
    flag("output-filter", None, Req("task"), Output, ATTACH, "", "standard output of this task only"),
    flag("pty", None, No, Launch, ATTACH, "", "use the pseudo terminal of task 0"),
    flag("quiet", Some('Q'), No, Output, ATTACH, "", "no messages except errors"),
    flag("verbose", Some('v'), No, Other, ATTACH, "", "say more"),
    // sbcast
    flag("compress", Some('C'), Opt("library"), Launch, CAST, "COMPRESS", "compress on the way"),
    flag("exclude", None, Req("paths"), Launch, CAST, "EXCLUDE", "libraries that are not sent"),
    flag("fanout", Some('F'), Req("number"), Launch, CAST, "FANOUT", "width of the tree of nodes"),
    flag("force", Some('f'), No, Launch, CAST, "FORCE", "replace a file that is there"),
    flag("jobid", Some('j'), Req("id"), Filter, CAST, "", "the job on whose nodes the file is written"),
    flag("preserve", Some('p'), No, Launch, CAST, "PRESERVE", "keep mode and times of the file"),
    flag("send-libs", None, Opt("yes|no"), Launch, CAST, "SEND_LIBS", "send the libraries of a program too"),
    flag("size", Some('s'), Req("bytes"), Launch, CAST, "SIZE", "size of the pieces"),
    flag("timeout", Some('t'), Req("seconds"), Launch, CAST, "TIMEOUT", "how long a message may take"),
    flag("treewidth", Some('w'), Req("number"), Launch, CAST, "TREE_WIDTH", "width of the tree of nodes"),
    flag("verbose", Some('v'), No, Other, CAST, "", "say more"),
    // strigger
    flag("backup_slurmctld_assumed_control", Some('C'), No, Filter, TRIGGER, "", "the backup controller has taken over"),
    flag("backup_slurmctld_failure", Some('B'), No, Filter, TRIGGER, "", "the backup controller has failed"),
    flag("backup_slurmctld_resumed_operation", Some('c'), No, Filter, TRIGGER, "", "the backup controller is back"),
    flag("burst_buffer", None, No, Filter, TRIGGER, "", "a burst buffer has failed"),
    flag("clear", None, No, Other, TRIGGER, "", "remove triggers"),
    flag("cluster", Some('M'), Req("names"), Filter, TRIGGER, "=SLURM_CLUSTERS", "clusters to act on"),
    flag("down", Some('d'), No, Filter, TRIGGER, "", "a node went down"),
    flag("drained", Some('D'), No, Filter, TRIGGER, "", "a node is drained"),
    flag("draining", None, No, Filter, TRIGGER, "", "a node is being drained"),
    flag("fail", Some('F'), No, Filter, TRIGGER, "", "a node is failing"),
    flag("fini", Some('f'), No, Filter, TRIGGER, "", "the job has ended"),
    flag("flags", None, Req("flags"), Other, TRIGGER, "", "PERM keeps the trigger after it fired"),
    flag("get", None, No, Other, TRIGGER, "", "show triggers"),
    flag("id", Some('i'), Req("id"), Filter, TRIGGER, "", "this trigger"),
    flag("idle", Some('I'), No, Filter, TRIGGER, "", "a node has been idle for the time of --offset"),
    flag("jobid", Some('j'), Req("id"), Filter, TRIGGER, "", "of this job"),
    flag("node", Some('n'), Opt("nodes"), Filter, TRIGGER, "", "of these nodes"),
    flag("noheader", Some('N'), No, Output, TRIGGER, "", "no heading"),
    flag("offset", Some('o'), Req("seconds"), Other, TRIGGER, "", "so long after the event, before it when negative"),
    flag("primary_database_failure", Some('h'), No, Filter, TRIGGER, "", "the accounting database has failed"),
    flag("primary_database_resumed_operation", Some('H'), No, Filter, TRIGGER, "", "the accounting database is back"),
    flag("primary_slurmctld_acct_buffer_full", Some('e'), No, Filter, TRIGGER, "", "no more accounting records can be kept"),
    flag("primary_slurmctld_failure", Some('a'), No, Filter, TRIGGER, "", "the controller has failed"),
    flag("primary_slurmctld_resumed_control", Some('b'), No, Filter, TRIGGER, "", "the controller has control again"),
    flag("primary_slurmctld_resumed_operation", Some('A'), No, Filter, TRIGGER, "", "the controller is back"),
    flag("primary_slurmdbd_failure", Some('g'), No, Filter, TRIGGER, "", "the accounting daemon has failed"),
    flag("primary_slurmdbd_resumed_operation", Some('G'), No, Filter, TRIGGER, "", "the accounting daemon is back"),
    flag("program", Some('p'), Req("path"), Other, TRIGGER, "", "what is run, with the names of nodes or the job's id"),
    flag("quiet", Some('Q'), No, Output, TRIGGER, "", "no messages except errors"),
    flag("reconfig", Some('r'), No, Filter, TRIGGER, "", "the configuration has changed"),
    flag("resume", Some('R'), No, Filter, TRIGGER, "", "a node is to be resumed"),
    flag("set", None, No, Other, TRIGGER, "", "add a trigger"),
    flag("time", Some('t'), No, Filter, TRIGGER, "", "the time limit of the job comes near"),
    flag("up", Some('u'), No, Filter, TRIGGER, "", "a node is up again"),
    flag("user", None, Req("user"), Filter, TRIGGER, "", "of this user"),
    flag("verbose", Some('v'), No, Other, TRIGGER, "", "say more"),
    // scrontab
    flag("edit", Some('e'), No, Other, CRON, "", "edit the own crontab"),
    flag("list", Some('l'), No, Output, CRON, "", "print the own crontab"),
    flag("quiet", Some('Q'), No, Output, CRON, "", "no messages except errors"),
    flag("remove", Some('r'), No, Other, CRON, "", "remove the own crontab with its jobs"),
    flag("user", Some('u'), Req("user"), Filter, CRON, "", "the crontab of this user"),
    flag("verbose", Some('v'), No, Other, CRON, "", "say more"),
];
