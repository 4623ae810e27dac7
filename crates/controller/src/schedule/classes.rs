//! Pending jobs fall into few classes: same partition, same request. What was found out about a class holds for all its jobs.
//!
//! Sound because within a pass free resources only shrink: what did not fit does not fit later, and a job that runs longer
//! does not fit where a shorter one of its class did not. Invariant: a memo never says "no" to a job that would fit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use crate::reservation::fence::ViewKey;
use crate::select::{FreeView, ResourceRequest, SelectError, node_filters};

/// Queue of single-node searches: earliest known time, weight, node.
pub type SearchHeap = BinaryHeap<Reverse<(i64, u32, u32)>>;

/// Lists of nodes, one for each filter of a request.
pub type NodeLists = Vec<Arc<Vec<u32>>>;

/// Usable nodes that pass the filters of a request, one list for each of them.
fn lists(
    view: &FreeView<'_>,
    request: &ResourceRequest,
    usable: &Arc<Vec<u32>>,
) -> Vec<Arc<Vec<u32>>> {
    if request.constraint.is_none() && request.excluded_nodes.is_empty() {
        return vec![Arc::clone(usable)];
    }
    node_filters(request)
        .iter()
        .map(|filter| {
            let fits = |node: &&u32| filter.refuses(&view.facts[**node as usize]).is_none();
            Arc::new(usable.iter().filter(fits).copied().collect())
        })
        .collect()
}

/// A request with what is preferred in place of the constraint, and its lists of nodes.
pub type Preferred = (Arc<ResourceRequest>, NodeLists);

/// What is known about a class.
#[derive(Debug)]
pub struct Class {
    /// Request.
    pub request: Arc<ResourceRequest>,
    /// In whose view of reserved nodes its jobs are placed.
    pub view: ViewKey,
    /// Usable nodes of the partition that pass the filters, ascending; one list for each alternative of a matching OR.
    pub variants: Vec<Arc<Vec<u32>>>,
    /// The request with what is preferred in place of the constraint, and its lists; tried first for a start now.
    pub preferred: Option<Preferred>,
    /// Required nodes that cannot be used now.
    pub unavailable: Vec<String>,
    /// Why it can never run, once tested.
    pub feasible: Option<Result<(), SelectError>>,
    /// Jobs of at least so many seconds do not fit now.
    pub full_from_secs: i64,
    /// Seconds of a job → no start before this time. Ascending in both.
    not_before: BTreeMap<i64, i64>,
    /// Searches for several nodes by alternative and seconds: no node of the list starts before its time.
    pub bounds: BTreeMap<(usize, i64), Option<Vec<Option<i64>>>>,
    /// Single-node searches by alternative and seconds; `None` after the first, because most lengths come up once.
    pub searches: BTreeMap<(usize, i64), Option<SearchHeap>>,
}

impl Class {
    /// A class of which nothing is known. `all` are the positions of the partition's nodes.
    #[must_use]
    pub fn new(
        view: &FreeView<'_>,
        request: Arc<ResourceRequest>,
        all: &[u32],
        usable: &Arc<Vec<u32>>,
    ) -> Self {
        let variants = lists(view, &request, usable);
        let preferred = request.prefer.as_ref().map(|prefer| {
            let mut preferring = ResourceRequest::clone(&request);
            preferring.constraint = Some(prefer.clone());
            let lists = lists(view, &preferring, usable);
            (Arc::new(preferring), lists)
        });
        let unavailable = if request.required_nodes.is_empty() {
            Vec::new()
        } else {
            let usable_here = |name: &str| {
                all.iter().any(|node| {
                    view.facts[*node as usize].name() == name && view.facts[*node as usize].usable
                })
            };
            request
                .required_nodes
                .iter()
                .filter(|name| !usable_here(name))
                .cloned()
                .collect()
        };
        Self {
            request,
            view: None,
            variants,
            preferred,
            unavailable,
            feasible: None,
            full_from_secs: i64::MAX,
            not_before: BTreeMap::new(),
            bounds: BTreeMap::new(),
            searches: BTreeMap::new(),
        }
    }

    /// Most usable nodes that one of its alternatives has.
    #[must_use]
    pub fn usable_nodes(&self) -> usize {
        self.variants
            .iter()
            .map(|nodes| nodes.len())
            .max()
            .unwrap_or(0)
    }

    /// No job of `secs` seconds can start before this time.
    #[must_use]
    pub fn earliest(&self, secs: i64, now: i64) -> i64 {
        self.not_before
            .range(..=secs)
            .next_back()
            .map_or(now, |(_, time)| *time)
            .max(now)
    }

    /// A job of `secs` seconds could not start before `time`.
    pub fn learn(&mut self, secs: i64, time: i64) {
        if self.earliest(secs, i64::MIN) >= time {
            return;
        }
        self.not_before.insert(secs, time);
        let weaker: Vec<i64> = self
            .not_before
            .range(secs + 1..)
            .take_while(|(_, t)| **t <= time)
            .map(|(s, _)| *s)
            .collect();
        for secs in weaker {
            self.not_before.remove(&secs);
        }
    }
}
