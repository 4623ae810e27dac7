//! The hot core: one scheduling pass, one submission, one cycle of priorities, hostlists. `cargo bench -p sluice-benches`.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use sluice_benches::{NOW, cluster, cluster_with, fill_queue, submit_one};
use sluice_controller::Event;
use sluice_controller::event::apply;
use sluice_controller::schedule::{PlanOptions, plan};
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pass");
    group.sample_size(10);
    for (nodes, jobs, shapes) in [(100, 1_000, 4), (1_000, 10_000, 4), (1_000, 10_000, 500)] {
        let mut full = cluster(nodes);
        fill_queue(&mut full, jobs, shapes);
        group.bench_function(
            format!("{nodes} nodes, {jobs} jobs, {shapes} shapes"),
            |b| {
                b.iter(|| black_box(plan(&full, NOW, PlanOptions::default())));
            },
        );
    }
    group.finish();
}

fn submissions(criterion: &mut Criterion) {
    for queued in [0, 10_000] {
        let mut base = cluster(100);
        fill_queue(&mut base, queued, 4);
        criterion.bench_function(&format!("submission with {queued} jobs queued"), |b| {
            b.iter_batched(
                || base.clone(),
                |mut live| {
                    submit_one(&mut live, 7, 4);
                    live
                },
                BatchSize::SmallInput,
            );
        });
    }
}

/// One cycle of PriorityCalcPeriod with every factor in force.
fn cycles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cycle");
    group.sample_size(10);
    for jobs in [10_000, 100_000] {
        let mut full = cluster_with(
            1_000,
            "AccountingStorageType=accounting_storage/slurmdbd\nPriorityWeightAge=1000\n\
             PriorityWeightFairshare=10000\nPriorityWeightJobSize=1000\nPriorityWeightPartition=1000\n\
             PriorityWeightQOS=2000\nPriorityWeightTRES=CPU=1000,Mem=1000,GRES/gpu=3000",
        );
        fill_queue(&mut full, jobs, 4);
        let event = Event::PrioritiesCalculated {
            time: NOW + 300,
            reset: false,
        };
        group.bench_function(format!("{jobs} jobs"), |b| {
            b.iter_batched(
                || full.clone(),
                |mut live| {
                    apply(&mut live, &event);
                    live
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn hostlists(criterion: &mut Criterion) {
    let names = parse_hostlist("rack[0-9]n[000-999]").expect("a hostlist");
    criterion.bench_function("hostlist of 10,000 names, collapsed", |b| {
        b.iter(|| black_box(collapse_hostlist(&names)));
    });
    criterion.bench_function("hostlist of 10,000 names, expanded", |b| {
        b.iter(|| black_box(parse_hostlist("rack[0-9]n[000-999]")));
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    passes(&mut criterion);
    submissions(&mut criterion);
    cycles(&mut criterion);
    hostlists(&mut criterion);
    criterion.final_summary();
}
